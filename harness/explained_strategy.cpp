#include "harness/explained_strategy.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "comm/simulated/host_world.hpp"
#include "core/error.hpp"
#include "engine/engine.hpp"
#include "engine/input_specs.hpp"
#include "harness/explained_exchanges.hpp"
#include "harness/scenario_runner.hpp"
#include "harness/step_runner.hpp"
#include "harness/verbs/verbs.hpp"
#include "strategies/direct_gathers.hpp"

namespace dcp {

namespace {

// Bytes that one rank sends in a collective, by the algorithms that move the fewest.
std::size_t egress_of(const CollectiveOp::Params& call, int world_size) {
  const auto peers = static_cast<std::size_t>(world_size - 1);
  const std::size_t message = static_cast<std::size_t>(call.count) * size_bytes(call.dtype);
  if (call.kind != CollectiveKind::kAllReduce) return peers * message;
  return 2 * peers * message / static_cast<std::size_t>(world_size);
}

template <class Params>
Params params_of(const GraphNode& node) {
  Params params;
  std::memcpy(&params, node.params.data(), sizeof(params));
  return params;
}

// The rows that a node of a gather stores to peers.
std::optional<DirectStoreRows::Params> stores_of(const GraphNode& node) {
  if (node.op == &kOpInfo<DirectQueryStore> || node.op == &kOpInfo<DirectKvStore>) {
    return params_of<DirectStoreRows::Params>(node);
  }
  if (node.op == &kOpInfo<DirectQuerySend> || node.op == &kOpInfo<DirectKvSend>) {
    return params_of<DirectSendRows::Params>(node).store;
  }
  return std::nullopt;
}

ExplainedOp describe(const GraphNode& node, int world_size) {
  const bool has_label = node.op->label != nullptr;
  ExplainedOp op{
      .name = std::string(has_label ? node.op->label(node.params.data()) : node.op->name),
      .stream = node.stream,
      .count = 1};
  if (const auto stores = stores_of(node)) {
    op.egress_bytes =
        static_cast<std::size_t>((world_size - 1) * stores->num_rows * stores->row_bytes);
    return op;
  }
  if (node.op != &kOpInfo<CollectiveOp>) return op;
  op.egress_bytes = egress_of(params_of<CollectiveOp::Params>(node), world_size);
  return op;
}

void add(const ExplainedOp& op, std::vector<ExplainedOp>& ops) {
  const auto found = std::find_if(ops.begin(), ops.end(), [&](const ExplainedOp& other) {
    return op.name == other.name && op.stream == other.stream;
  });
  if (found == ops.end()) {
    ops.push_back(op);
    return;
  }
  found->count += op.count;
  found->egress_bytes += op.egress_bytes;
}

// Whether the node writes into a buffer of that name.
bool fills(std::string_view buffer, const GraphNode& node, const RankStep& step) {
  std::vector<Access> accesses;
  node.op->accesses(node.params.data(), accesses);
  return std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    return access.mode != Mode::kRead && access.size_bytes > 0 &&
           std::any_of(step.ubatches.begin(), step.ubatches.end(), [&](const UbatchStep& ubatch) {
             const Buffer* target = ubatch.buffers.find(buffer);
             const auto* at = static_cast<const std::byte*>(access.data);
             return target != nullptr && at >= target->data &&
                    at < target->data + target->size_bytes;
           });
  });
}

std::string lifetime_text(Lifetime lifetime, WorkspacePolicy policy) {
  if (lifetime == Lifetime::kActivation) return "the graph's pool, a copy per layer";
  if (lifetime == Lifetime::kSymmetric) return "the run, written by peers; shared by graphs";
  switch (policy) {
    case WorkspacePolicy::kGraphPool:
      return "the graph's pool, shared by layers";
    case WorkspacePolicy::kFixed:
      return "the fixed workspace, shared by graphs";
    case WorkspacePolicy::kGrowable:
      return "the workspace of its day: growth moves it";
  }
  return "";
}

std::vector<ExplainedBuffer> inputs_of(const Scenario& scenario, const Engine& engine) {
  std::vector<ExplainedBuffer> buffers;
  const auto add = [&](const std::vector<InputSpec>& specs, std::string_view lives, int num) {
    for (const InputSpec& spec : specs) {
      buffers.push_back({.name = std::string(spec.name),
                         .shape = spec.shape,
                         .dtype = std::string(spec.dtype),
                         .size_bytes = spec.size_bytes(),
                         .lives = std::string(lives),
                         .num = num});
    }
  };
  add(data_specs(scenario, engine.plan(), engine.capacity()), "the engine's life", 1);
  add(metadata_specs(metadata_capacity(scenario, engine.capacity())), "the engine's life",
      scenario.graph.ubatches);
  return buffers;
}

// Captures what the scenario captures, and finds which graph each step would launch. Verbs that
// disturb single operations are left out: this is the plan, not what becomes of it.
class StepWalk {
 public:
  StepWalk(const Scenario& scenario, const Strategy& strategy, ExplainedStrategy& explained)
      : scenario_(scenario),
        strategy_(strategy),
        explained_(explained),
        world_(scenario.world_size, 0, scenario.graph.ubatches, Backing::kNothing),
        engine_(scenario, strategy, world_) {
    explained_.inputs = inputs_of(scenario, engine_);
  }

  void walk(const Step& step, int index) {
    if (const auto* together = std::get_if<verb::Together>(&step.verb)) {
      for (const Step& each : together->steps) walk(each, index);
      return;
    }
    ExplainedStep& explained = explained_.steps.emplace_back();
    explained.index = index;
    explained.verb = step.verb_name;
    explained.what = text_of(step.verb);
    try {
      std::visit([&](const auto& verb) { take(verb, step, explained); }, step.verb);
    } catch (const StepError& error) {
      explained.error = {error.kind(), error.why()};
    } catch (const ApiError& error) {
      explained.error = {std::string(error.kind()), error.what()};
    }
  }

 private:
  const Batch& batch(const std::string& name) const {
    return *std::find_if(scenario_.batches.begin(), scenario_.batches.end(),
                         [&](const Batch& candidate) { return candidate.name == name; });
  }

  template <class AnyVerb>
  void take(const AnyVerb&, const Step&, ExplainedStep&) {}

  void take(const verb::Capture& verb, const Step& step, ExplainedStep& explained) {
    if (verb.rows || !verb.batch.empty()) {
      const Batch* used = verb.batch.empty() ? nullptr : &batch(verb.batch);
      explained.rows = engine_.rows_to_capture(verb.rows, used);
      capture(step, explained.rows, used);
      return;
    }
    for (const std::int64_t rows : verb.all ? capture_sizes(scenario_) : verb.sizes) {
      explained.rows = std::max(explained.rows, rows);
      capture(step, rows, nullptr);
    }
  }

  void take(const verb::Replay& verb, const Step&, ExplainedStep& explained) {
    const Batch& used = batch(verb.batch);
    const EngineStep* graph = engine_.graph_of({.batch = used, .graph = verb.graph});
    if (graph == nullptr) return run_eagerly(used, explained);
    explained.batch = used.name;
    explained.graph = graph->name;
    explained.rows = graph->rows;
    explained.ubatches = graph->ubatches;
  }

  void take(const verb::Eager& verb, const Step&, ExplainedStep& explained) {
    run_eagerly(batch(verb.batch), explained);
  }

  void take(const verb::Grow& verb, const Step&, ExplainedStep&) {
    engine_.grow_workspace(verb.rows);
  }
  void take(const verb::Lock&, const Step&, ExplainedStep&) { engine_.lock_workspace(); }
  void take(const verb::Destroy& verb, const Step&, ExplainedStep&) {
    if (!verb.graph.empty()) engine_.destroy(verb.graph);
  }
  void take(const verb::Fork& verb, const Step& step, ExplainedStep&) {
    engine_.fork(verb.stream, step.rank);
  }
  void take(const verb::Join& verb, const Step& step, ExplainedStep&) {
    engine_.join(verb.stream, step.rank);
  }
  void take(const verb::Place& verb, const Step& step, ExplainedStep&) {
    engine_.place(verb.ubatch, verb.stream, step.rank);
  }

  void run_eagerly(const Batch& used, ExplainedStep& explained) {
    explained.batch = used.name;
    explained.rows = make_batch_layout(scenario_, used).rows;
    explained.ubatches = cut_ubatches(scenario_, used, explained.rows, explained.rows);
  }

  void capture(const Step& step, std::int64_t rows, const Batch* used) {
    const std::string name = name_to_capture(engine_, step, rows, used);
    engine_.capture(name, rows, used);
    const auto found = std::find_if(engine_.graphs().begin(), engine_.graphs().end(),
                                    [&](const auto& candidate) { return candidate->name == name; });
    ExplainedGraph graph = describe(**found);
    auto& graphs = explained_.graphs;
    std::erase_if(graphs, [&](const ExplainedGraph& other) { return other.name == name; });
    graphs.push_back(std::move(graph));
  }

  ExplainedGraph describe(const EngineStep& step) {
    ExplainedGraph graph{.name = step.name, .rows = step.rows, .ubatches = step.ubatches};
    const GraphRecord& record = world_.runtime(0).record_of(step.ranks[0].graph);
    for (const GraphNode& node : record.nodes) {
      const ExplainedOp op = dcp::describe(node, scenario_.world_size);
      add(op, graph.ops);
      for (const char* target : {"q_gathered", "q_collected"}) {
        if (fills(target, node, step.ranks[0])) graph.query_bytes += op.egress_bytes;
      }
      for (const char* target : {"kv_gathered", "kv_slots"}) {
        if (fills(target, node, step.ranks[0])) graph.kv_bytes += op.egress_bytes;
      }
    }
    graph.num_edges = record.num_edges();
    graph.exchanges = exchanges_of(record, step.ranks[0]);
    for (std::size_t u = 0; u < step.ubatches.size(); ++u) add_buffers(step, u, graph);
    for (const UbatchStep& ubatch : step.ranks[0].ubatches) {
      graph.combine_bytes +=
          strategy_.egress_bytes(ubatch.shape) * static_cast<std::size_t>(ubatch.shape.layers);
    }
    return graph;
  }

  void add_buffers(const EngineStep& step, std::size_t ubatch, ExplainedGraph& graph) const {
    const BufferPlan needed =
        engine_.plan().buffers(engine_.plan().shape(0, step.ubatches[ubatch].num_rows));
    for (const BufferSpec& spec : needed.specs()) {
      const auto same = std::find_if(
          graph.buffers.begin(), graph.buffers.end(), [&](const ExplainedBuffer& other) {
            return other.name == spec.name && other.size_bytes == spec.size_bytes;
          });
      if (same != graph.buffers.end()) {
        ++same->num;
        continue;
      }
      graph.buffers.push_back({.name = spec.name,
                               .shape = spec.shape,
                               .dtype = spec.shape.empty() ? "" : std::string(name(spec.dtype)),
                               .size_bytes = spec.size_bytes,
                               .lives = lifetime_text(spec.lifetime, scenario_.workspace.policy),
                               .num = 1});
    }
  }

  const Scenario& scenario_;
  const Strategy& strategy_;
  ExplainedStrategy& explained_;
  HostWorld world_;
  Engine engine_;
};

}  // namespace

ExplainedStrategy explain_strategy(const Scenario& scenario, const Strategy& strategy) {
  ExplainedStrategy explained{.name = strategy.name(),
                              .about = strategy.describe(),
                              .keeps_all_heads = strategy.keeps_all_heads()};
  const auto steps = scenario.steps.empty() ? default_steps(scenario) : scenario.steps;
  try {
    StepWalk walk(scenario, strategy, explained);
    for (std::size_t i = 0; i < steps.size(); ++i) walk.walk(steps[i], static_cast<int>(i));
  } catch (const StepError& error) {  // before the first step
    explained.error = {error.kind(), error.why()};
  }
  return explained;
}

}  // namespace dcp
