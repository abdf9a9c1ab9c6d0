#include "harness/step_runner.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "runtime/api_error.hpp"

namespace dcp {

namespace {

// Errors that say that the scenario itself is wrong. Any other refused step is a step that fell
// short.
constexpr std::array kBadInput = {
    "qsl_not_monotone",   "qsl_without_seq_lens", "seq_len_below_query_len",
    "negative_local_len", "heads_not_divisible",  "ubatch_out_of_range",
    "capacity",           "no_such_graph",        "no_such_buffer",
    "alignment",          "unsupported_dtype",    "local_lens_mismatch"};

bool is_bad_input(const std::string& kind) {
  return std::find(kBadInput.begin(), kBadInput.end(), kind) != kBadInput.end();
}

const std::string* batch_name(const Step& step) {
  if (const auto* replay = std::get_if<verb::Replay>(&step.verb)) return &replay->batch;
  if (const auto* eager = std::get_if<verb::Eager>(&step.verb)) return &eager->batch;
  if (const auto* capture = std::get_if<verb::Capture>(&step.verb)) return &capture->batch;
  return nullptr;
}

std::string graph_name(std::int64_t rows) { return "g" + std::to_string(rows); }

struct VerbText {
  std::string operator()(const verb::Capture& v) const {
    if (v.all) return "all sizes";
    if (v.rows) return v.graph.empty() ? graph_name(*v.rows) : v.graph;
    return list_text(v.sizes);
  }
  std::string operator()(const verb::Replay& v) const {
    const std::string times = v.times == 1 ? "" : " x" + std::to_string(v.times);
    return v.batch + times + (v.graph.empty() ? "" : " in " + v.graph);
  }
  std::string operator()(const verb::Eager& v) const { return v.batch; }
  std::string operator()(const verb::Poison& v) const {
    return v.buffer.buffer + (v.buffer.row ? " row " + std::to_string(*v.buffer.row) : "");
  }
  std::string operator()(const verb::StubAttention& v) const {
    constexpr std::array kModes = {"exact", "poison_empty", "plus_inf", "nan_pad", "untouched"};
    return kModes[static_cast<std::size_t>(v.mode)];
  }
  std::string operator()(const verb::Destroy& v) const {
    return v.graph.empty() ? "communicators" : v.graph;
  }
  template <class Other>
  std::string operator()(const Other&) const {
    return "";
  }
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b, std::size_t count) {
  return a.size() >= count && b.size() >= count &&
         (count == 0 || std::memcmp(a.data(), b.data(), count * sizeof(float)) == 0);
}

}  // namespace

StepRunner::StepRunner(const Scenario& scenario, const Strategy& strategy,
                       const RunOptions& options)
    : scenario_(scenario),
      strategy_(strategy),
      world_(make_world({.backend = options.backend,
                         .world_size = scenario.world_size,
                         .num_communicators = scenario.graph.ubatches,
                         .seed = options.seed,
                         .observer = options.trace})),
      trace_(options.trace) {
  if (!options.dump_folder.empty()) dump_.emplace(scenario, strategy.name(), options);
}

StepReport StepRunner::run(const Step& step, int index) {
  const auto begin = std::chrono::steady_clock::now();
  const Expect expect = expectation_of(step, strategy_.name());
  StepReport report;
  report.index = index;
  report.name = step.name;
  report.verb = step.verb_name;
  report.what = std::visit(VerbText{}, step.verb);
  last_output_ = std::to_string(index);
  if (trace_ != nullptr) trace_->begin_step(index);
  try {
    perform(step, expect, report);
  } catch (const StepError& error) {
    report.error = {error.kind(), error.why()};
  } catch (const ApiError& error) {
    report.error = {"capture_illegal_call", error.what()};
  } catch (const Failure& failure) {
    report.failures.push_back({failure.kind(), failure.rank(), failure.why()});
  }
  hold_to_findings(step, expect, report);
  if (!step.name.empty() && outputs_.contains(last_output_)) {
    outputs_[step.name] = outputs_[last_output_];
  }
  if (!report.problems.empty()) report.status = Status::kFail;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

Engine& StepRunner::engine() {
  if (engine_ == nullptr) engine_ = std::make_unique<Engine>(scenario_, strategy_, *world_);
  return *engine_;
}

const Batch& StepRunner::batch(const std::string& name) const {
  return *std::find_if(scenario_.batches.begin(), scenario_.batches.end(),
                       [&](const Batch& candidate) { return candidate.name == name; });
}

void StepRunner::perform(const Step& step, const Expect& expect, StepReport& report) {
  if (const auto* capture_verb = std::get_if<verb::Capture>(&step.verb)) {
    capture(*capture_verb, report);
  } else if (const auto* replay = std::get_if<verb::Replay>(&step.verb)) {
    const Batch& used = batch(replay->batch);
    const StepRun run = engine().replay(used, replay->graph, replay->times);
    if (run.step->name != "eager") report.launches = replay->times;
    examine(run, used, expect, report);
  } else if (const auto* eager = std::get_if<verb::Eager>(&step.verb)) {
    const Batch& used = batch(eager->batch);
    examine(engine().eager(used), used, expect, report);
  } else if (const auto* poison = std::get_if<verb::Poison>(&step.verb)) {
    BufferRef ref = poison->buffer;
    if (!ref.rank) ref.rank = step.rank;
    engine().poison(ref);
  } else if (const auto* stub = std::get_if<verb::StubAttention>(&step.verb)) {
    engine().set_stub(stub->mode);
    stubbed_ = stub->mode != verb::StubMode::kExact;
  } else if (const auto* destroy = std::get_if<verb::Destroy>(&step.verb)) {
    if (destroy->graph.empty()) {
      engine().destroy_communicators();
    } else {
      engine().destroy(destroy->graph);
    }
  } else if (std::holds_alternative<verb::Sync>(step.verb)) {
    world_->drain();
  }
}

void StepRunner::capture(const verb::Capture& capture, StepReport& report) {
  if (capture.rows) {
    const Batch* used = capture.batch.empty() ? nullptr : &batch(capture.batch);
    const std::string graph = capture.graph.empty() ? graph_name(*capture.rows) : capture.graph;
    engine().capture(graph, *capture.rows, used);
    report.rows = *capture.rows;
    return;
  }
  const auto sizes = capture.all ? capture_sizes(scenario_) : capture.sizes;
  for (const std::int64_t rows : sizes) {
    engine().capture(graph_name(rows), rows);
    report.rows = std::max(report.rows, rows);
  }
}

void StepRunner::examine(const StepRun& run, const Batch& batch, const Expect& expect,
                         StepReport& report) {
  report.graph = run.step->name == "eager" ? "" : run.step->name;
  report.rows = run.step->rows;
  report.eager_rows = run.eager_rows;
  const StepShape& shape = run.step->ranks[0].shape;
  report.egress_bytes = strategy_.egress_bytes(shape) * static_cast<std::size_t>(shape.layers);
  describe_ranks(run, report);
  describe_graph(run, report);

  LayerResult right;
  if (checks_reference(expect)) {
    check_layers(run, batch, report, right);
  } else if (dump_) {
    StepReport unchecked;
    check_layers(run, batch, unchecked, right);
  }
  if (dump_) dump_->write(*engine_, run, report.index);
  StepOutput output = read_output(run);
  hold_to_outputs(run, output, right, expect, report);
  outputs_[last_output_] = std::move(output);
}

void StepRunner::check_layers(const StepRun& run, const Batch& batch, StepReport& report,
                              LayerResult& last_layer) {
  const StepReference reference(scenario_, batch, run.step->rows, strategy_.name());
  const bool given = scenario_.data.kind == DataKind::kGiven;
  const CheckOptions options{.partial = !given, .partial_empty_rows = !stubbed_};
  const bool splits = scenario_.attention_split == AttentionSplit::kContextThenNew;
  Comparison partial, combine, new_tokens, merge, whole;
  for (int layer = 0; layer < scenario_.layers; ++layer) {
    const LayerValues values = engine_->read_layer(run, layer);
    LayerObservation observation{.layer = layer, .query = values.query, .ranks = {}};
    for (const RankLayerValues& rank : values.ranks) {
      observation.ranks.push_back({.partial_out = rank.partial_out,
                                   .partial_lse = rank.partial_lse,
                                   .out = rank.out,
                                   .lse = rank.lse,
                                   .first_out_head = rank.first_out_head,
                                   .num_out_heads = rank.num_out_heads,
                                   .context_out = rank.context_out,
                                   .context_lse = rank.context_lse,
                                   .new_out = rank.new_out,
                                   .new_lse = rank.new_lse});
    }
    LayerCheck check = reference.check_layer(observation, options);
    partial.merge(check.partial);
    combine.merge(check.combine);
    new_tokens.merge(check.new_tokens);
    merge.merge(check.merge);
    whole.merge(check.step);
    if (dump_) dump_->add_reference(check.expected);
    last_layer = std::move(check.expected);
  }
  if (!given) report.checks.push_back({"partial", partial});
  report.checks.push_back({"combine", combine});
  if (splits) report.checks.push_back({"new", new_tokens});
  if (splits) report.checks.push_back({"merge", merge});
  report.checks.push_back({"step", whole});
}

// Outputs of the last layer, put together from the ranks that hold each head.
StepOutput StepRunner::read_output(const StepRun& run) const {
  const StepShape& shape = run.step->ranks[0].shape;
  const LayerValues values = engine_->read_layer(run, shape.layers - 1);
  const auto rows = static_cast<std::size_t>(shape.num_tokens);
  const auto heads = static_cast<std::size_t>(shape.num_heads);
  const auto dim = static_cast<std::size_t>(shape.head_dim);
  StepOutput output{.rows = run.layout.rows, .num_heads = shape.num_heads, .out = {}, .lse = {}};
  output.out.resize(rows * heads * dim);
  output.lse.resize(shape.return_lse ? rows * heads : 0);
  for (const RankLayerValues& rank : values.ranks) {
    const auto own = static_cast<std::size_t>(rank.num_out_heads);
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t to = row * heads + static_cast<std::size_t>(rank.first_out_head);
      std::copy_n(rank.out.begin() + static_cast<std::ptrdiff_t>(row * own * dim), own * dim,
                  output.out.begin() + static_cast<std::ptrdiff_t>(to * dim));
      if (rank.lse.empty()) continue;
      std::copy_n(rank.lse.begin() + static_cast<std::ptrdiff_t>(row * own), own,
                  output.lse.begin() + static_cast<std::ptrdiff_t>(to));
    }
  }
  return output;
}

void StepRunner::hold_to_outputs(const StepRun& run, const StepOutput& output,
                                 const LayerResult& right, const Expect& expect,
                                 StepReport& report) {
  for (const LevelReport& check : report.checks) {
    if (!check.comparison.first_bad) continue;
    const FirstBad& bad = *check.comparison.first_bad;
    report.problems.push_back(
        check.level + ": layer " + std::to_string(bad.at.layer) + ", rank " +
        std::to_string(bad.at.rank) + ", row " + std::to_string(bad.at.row) + ", head " +
        std::to_string(bad.at.head) +
        (bad.at.element < 0 ? ", lse" : ", element " + std::to_string(bad.at.element)) + ": got " +
        std::to_string(bad.got) + ", want " + std::to_string(bad.want) + " (" +
        std::to_string(check.comparison.max_error_over_tolerance) + " x tolerance at worst)");
  }
  if (checks_reference(expect)) {
    compare_expected_values(expect, output, right, report.problems);
  }
  if (expect.empty_rows) {
    const auto empty = observed_empty_rows(output, run.step->rows);
    if (empty != *expect.empty_rows) {
      report.problems.push_back("expect.empty_rows: rows " + list_text(empty) +
                                " are empty, expected " + list_text(*expect.empty_rows));
    }
  }
  if (expect.eager_rows && *expect.eager_rows != run.eager_rows) {
    report.problems.push_back("expect.eager_rows: " + std::to_string(run.eager_rows) +
                              " rows ran without a graph, expected " +
                              std::to_string(*expect.eager_rows));
  }
  if (expect.same_bits_as) {
    const auto other = outputs_.find(*expect.same_bits_as);
    const auto count = static_cast<std::size_t>(output.rows * output.num_heads);
    const bool same =
        other != outputs_.end() && other->second.rows == output.rows &&
        same_bits(output.out, other->second.out,
                  count * static_cast<std::size_t>(run.step->ranks[0].shape.head_dim)) &&
        same_bits(output.lse, other->second.lse, output.lse.empty() ? 0 : count);
    if (!same) {
      report.problems.push_back("expect.same_bits_as: the bits differ from those of step " +
                                *expect.same_bits_as);
    }
  }
}

void StepRunner::hold_to_findings(const Step& step, const Expect& expect,
                                  StepReport& report) const {
  if (report.error && expect.error != report.error->kind) {
    const std::string text = report.error->kind + ": " + report.error->why;
    if (!expect.error && is_bad_input(report.error->kind)) {
      const std::string* name = batch_name(step);
      const bool of_batch =
          name != nullptr && !name->empty() && report.error->kind != "no_such_graph";
      throw InputError(of_batch ? batch(*name).place : step.place, text);
    }
    report.problems.push_back("error " + text +
                              (expect.error ? " (expected " + *expect.error + ")" : ""));
  }
  if (!report.error && expect.error) {
    report.problems.push_back("expected error " + *expect.error + ", the step went through");
  }
  std::vector<std::string> missing;
  for (const ExpectedFinding& wanted : expect.failures) missing.push_back(wanted.kind);
  for (const FailureReport& failure : report.failures) {
    const bool expected = std::any_of(
        expect.failures.begin(), expect.failures.end(), [&](const ExpectedFinding& wanted) {
          return wanted.kind == failure.kind && (!wanted.rank || *wanted.rank == failure.rank);
        });
    if (!expected) report.problems.push_back("failure " + failure.kind + ": " + failure.why);
    std::erase(missing, failure.kind);
  }
  for (const std::string& kind : missing) {
    report.problems.push_back("expected failure " + kind + ", none was seen");
  }
}

void StepRunner::describe_graph(const StepRun& run, StepReport& report) const {
  world_->each_rank([&](Rank& rank) {
    const Graph graph = run.step->ranks[static_cast<std::size_t>(rank.index)].graph;
    if (rank.index != 0 || graph == Graph{}) return;
    const GraphRecord& record = rank.runtime.record_of(graph);
    report.op_nodes = record.nodes.size();
    if (record.device.nodes.empty()) return;
    report.kernel_nodes = record.device.count(DeviceNodeKind::kKernel);
  });
}

void StepRunner::describe_ranks(const StepRun& run, StepReport& report) const {
  const BatchLayout& layout = run.layout;
  for (int rank = 0; rank < scenario_.world_size; ++rank) {
    const Shard shard{rank, scenario_.world_size, scenario_.interleave};
    RankReport mine{.seq_lens = layout.local_seq_lens[rank], .empty_rows = {}};
    for (std::int64_t r = 0; r < layout.num_requests(); ++r) {
      for (std::int64_t j = 0; j < layout.query_len(r); ++j) {
        if (local_bound(layout, shard, r, layout.sharded_bound(r, j)) == 0) {
          mine.empty_rows.push_back(layout.query_start_loc[r] + j);
        }
      }
    }
    for (std::int64_t row = layout.query_start_loc.back(); row < run.step->rows; ++row) {
      mine.empty_rows.push_back(row);
    }
    report.ranks.push_back(std::move(mine));
  }
}

}  // namespace dcp
