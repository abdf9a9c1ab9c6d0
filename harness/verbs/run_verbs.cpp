// Verbs that capture, run and tear down.
#include <algorithm>
#include <utility>

#include "harness/verbs/verbs.hpp"

namespace dcp {

namespace {

StepRequest request_of(const verb::Replay& verb, const Batch& batch) {
  return {.batch = batch,
          .graph = verb.graph,
          .times = verb.times,
          .stream = verb.stream,
          .wait = verb.wait};
}

StepRequest request_of(const verb::Eager& verb, const Batch& batch) {
  return {.batch = batch, .stream = verb.stream, .wait = verb.wait};
}

// Graphs are those of all ranks: a rank that captures alone has left the others.
void require_all_ranks(const VerbCall& call) {
  if (!call.step.rank || call.session.scenario().world_size == 1) return;
  throw StepError("step_divergence",
                  "rank " + std::to_string(*call.step.rank) + " captures, the other ranks do not");
}

void describe_graph(const EngineStep& step, World& world, StepReport& report) {
  world.each_rank([&](Rank& rank) {
    const Graph graph = step.ranks[0].graph;
    if (rank.index != 0 || graph == Graph{}) return;
    const GraphRecord& record = rank.runtime.record_of(graph);
    report.op_nodes = record.nodes.size();
    if (record.device.nodes.empty()) return;
    report.kernel_nodes = record.device.count(DeviceNodeKind::kKernel);
  });
}

// What would damage memory that is not the step's is not launched at all.
void refuse_launch(const std::vector<audit::Finding>& hazards) {
  for (const audit::Finding& hazard : hazards) {
    if (hazard.kind != "read_past_end") continue;
    throw Failure("illegal_address", hazard.rank, hazard_text(hazard));
  }
}

}  // namespace

std::string name_to_capture(Engine& engine, const Step& step, std::int64_t rows,
                            const Batch* batch) {
  const auto& given = std::get<verb::Capture>(step.verb).graph;
  if (!given.empty()) return given;
  const std::string name = graph_name(rows);
  const EngineStep* other = engine.other_graph(name, rows, batch);
  if (other == nullptr) return name;
  const std::string what =
      other->rows == rows ? "other ubatches" : std::to_string(other->rows) + " rows";
  throw InputError(step.place, "graph " + name + " of " + what +
                                   " would be replaced by the one of " + std::to_string(rows) +
                                   " rows that is captured as " + name +
                                   "; give one of them a name of its own");
}

namespace {

// A capture that fails has a graph in its report: the one that it did not come to.
void capture(const VerbCall& call, const std::string& name, std::int64_t rows, const Batch* batch) {
  call.session.awaited_sets().meet(AwaitedSets::StepKind::kCapture, {});
  call.report.graph = name;
  call.session.engine().capture(name, rows, batch);
  call.report.graph.clear();
  call.report.rows = std::max(call.report.rows, rows);
}

}  // namespace

void perform(const verb::Capture& verb, const VerbCall& call) {
  require_all_ranks(call);
  Session& session = call.session;
  if (verb.rows || !verb.batch.empty()) {
    const Batch* used = verb.batch.empty() ? nullptr : &session.batch(verb.batch);
    const std::int64_t rows = session.engine().rows_to_capture(verb.rows, used);
    const std::string name = name_to_capture(session.engine(), call.step, rows, used);
    capture(call, name, rows, used);
    return;
  }
  const auto sizes = verb.all ? capture_sizes(session.scenario()) : verb.sizes;
  for (const std::int64_t rows : sizes) {
    const std::string name = name_to_capture(session.engine(), call.step, rows, nullptr);
    capture(call, name, rows, nullptr);
  }
}

void compute(const ComputingStep& step, const VerbCall& call) {
  Session& session = call.session;
  const auto* replay = std::get_if<verb::Replay>(&step.verb);
  const Batch& batch = session.batch(batch_of(step.verb));
  StepRequest request = replay != nullptr ? request_of(*replay, batch)
                                          : request_of(std::get<verb::Eager>(step.verb), batch);
  request.ranks = step.ranks;
  Engine& engine = session.engine();
  const EngineStep* graph = replay != nullptr ? engine.graph_of(request) : nullptr;
  const std::string graph_name = graph != nullptr ? graph->name : "";
  session.awaited_sets().meet(
      graph != nullptr ? AwaitedSets::StepKind::kReplay : AwaitedSets::StepKind::kEager,
      request.ranks);
  call.report.graph = graph_name;
  if (graph != nullptr) session.audit_launch(graph_name, call.report);
  refuse_launch(call.report.hazards);
  session.watch(request, graph);
  CheckedStep checked{.run = replay != nullptr ? engine.replay(request) : engine.eager(request),
                      .batch = batch,
                      .expect = call.expect,
                      .names = step.names,
                      .stubbed = session.is_stubbed()};
  checked.names.push_back(std::to_string(call.report.index));
  if (replay != nullptr && checked.run.eager_rows == 0) {
    call.report.launches = request.times;
    describe_graph(*checked.run.step, session.world(), call.report);
  }
  session.audit(call.report);
  session.audit_pending(graph_name, call.report);
  if (request.wait) {
    session.check(checked, call.report);
  } else {
    session.defer(std::move(checked), call.report, call.settled);
  }
}

void perform(const verb::Replay&, const VerbCall& call) {
  compute({.verb = call.step.verb, .ranks = call.ranks(), .names = {call.step.name}}, call);
}

void perform(const verb::Eager&, const VerbCall& call) {
  compute({.verb = call.step.verb, .ranks = call.ranks(), .names = {call.step.name}}, call);
}

void perform(const verb::Sync&, const VerbCall& call) { call.session.engine().drain(); }

void perform(const verb::StubAttention& verb, const VerbCall& call) {
  call.session.set_stub(verb.mode);
}

void perform(const verb::Destroy& verb, const VerbCall& call) {
  if (verb.graph.empty()) {
    call.session.engine().destroy_communicators();
  } else {
    call.session.engine().destroy(verb.graph);
  }
}

}  // namespace dcp
