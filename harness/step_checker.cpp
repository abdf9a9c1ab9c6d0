#include "harness/step_checker.hpp"

#include <algorithm>
#include <cstring>

#include "core/printable_text.hpp"
#include "harness/empty_rows.hpp"
#include "reference/kv_gather_check.hpp"

namespace dcp {

namespace {

bool same_bits(const std::vector<float>& a, const std::vector<float>& b, std::size_t count) {
  return a.size() >= count && b.size() >= count &&
         (count == 0 || std::memcmp(a.data(), b.data(), count * sizeof(float)) == 0);
}

std::string bad_value_text(const LevelReport& check) {
  const FirstBad& bad = *check.comparison.first_bad;
  return check.level + ": layer " + std::to_string(bad.at.layer) + ", rank " +
         std::to_string(bad.at.rank) + ", row " + std::to_string(bad.at.row) + ", head " +
         std::to_string(bad.at.head) +
         (bad.at.element < 0 ? ", lse" : ", element " + std::to_string(bad.at.element)) + ": got " +
         number_text(bad.got) + ", want " + number_text(bad.want) + " (" +
         number_text(check.comparison.max_error_over_tolerance) + " x tolerance at worst)";
}

}  // namespace

StepChecker::StepChecker(const Scenario& scenario, const Strategy& strategy,
                         const RunOptions& options)
    : scenario_(scenario), strategy_(strategy) {
  if (!options.dump_folder.empty()) dump_.emplace(scenario, strategy.name(), options);
}

void StepChecker::check(const Engine& engine, const CheckedStep& step, StepReport& report) {
  const StepRun& run = step.run;
  report.graph = run.step->name == "eager" ? "" : run.step->name;
  report.rows = run.step->rows;
  report.eager_rows = run.eager_rows;
  describe_ranks(run, report);
  count_bytes(run, report);

  const bool dumps = dump_ && static_cast<int>(run.ranks.size()) == scenario_.world_size;
  LayerResult right;
  if (is_held_to_reference(step.expect, report)) {
    check_layers(engine, step, report, right);
  } else if (dumps || names_values(step.expect)) {
    StepReport unchecked;
    check_layers(engine, step, unchecked, right);
  }
  if (dumps) dump_->write(engine, run, report.index, effective_strategy(run).name());
  StepOutput output = read_output(engine, run);
  hold_to_outputs(step, output, right, report);
  hold_to_bits(step, output, report);
  for (const std::string& name : step.names) {
    if (!name.empty()) outputs_[name] = output;
  }
}

// Of the rank that sends the most.
void StepChecker::count_bytes(const StepRun& run, StepReport& report) const {
  const auto& ubatches = run.step->ranks[run.ranks.front()].ubatches;
  for (const RankReport& rank : report.ranks) {
    std::size_t sent = 0;
    for (std::size_t u = 0; u < ubatches.size(); ++u) {
      StepShape shape = ubatches[u].shape;
      if (!run.waits_at_once) shape.direct.form = DirectForm::kSteps;
      const std::int64_t first = run.step->ubatches[u].first_row;
      const auto num_empty = static_cast<std::size_t>(std::count_if(
          rank.empty_rows.begin(), rank.empty_rows.end(),
          [&](std::int64_t row) { return row >= first && row < first + shape.num_tokens; }));
      sent += (strategy_.egress_bytes(shape) -
               num_empty * strategy_.unsent_bytes_per_empty_row(shape)) *
              static_cast<std::size_t>(shape.layers);
    }
    report.egress_bytes = std::max(report.egress_bytes, sent);
  }
  for (const UbatchStep& ubatch : ubatches) {
    if (&strategy_.effective(ubatch.shape) == &strategy_) continue;
    report.fallback_rows += ubatch.shape.num_tokens;
  }
}

// The one that combined the step; where it was two, the one whose sums are rounded more.
const Strategy& StepChecker::effective_strategy(const StepRun& run) const {
  for (const UbatchStep& ubatch : run.step->ranks[run.ranks.front()].ubatches) {
    const Strategy& effective = strategy_.effective(ubatch.shape);
    if (&effective != &strategy_) return effective;
  }
  return strategy_;
}

void StepChecker::check_layers(const Engine& engine, const CheckedStep& step, StepReport& report,
                               LayerResult& last_layer) {
  const StepRun& run = step.run;
  const StepReference reference(scenario_, step.batch, run.step->rows,
                                effective_strategy(run).name());
  const bool given = scenario_.data.kind == DataKind::kGiven;
  const CheckOptions options{.partial = !given, .partial_empty_rows = !step.stubbed};
  const bool splits = scenario_.attention_split == AttentionSplit::kContextThenNew;
  Comparison partial, combine, new_tokens, merge, whole;
  for (int layer = 0; layer < scenario_.layers; ++layer) {
    const LayerValues values = engine.read_layer(run, layer);
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
  if (scenario_.kv_gather) check_kv_gather(engine, step, report);
  if (!given) report.checks.push_back({"partial", partial});
  report.checks.push_back({"combine", combine});
  if (splits) report.checks.push_back({"new", new_tokens});
  if (splits) report.checks.push_back({"merge", merge});
  report.checks.push_back({"step", whole});
}

void StepChecker::check_kv_gather(const Engine& engine, const CheckedStep& step,
                                  StepReport& report) const {
  std::vector<RowRange> ubatches;
  for (const Ubatch& ubatch : step.run.step->ubatches) {
    ubatches.push_back({.first = ubatch.first_row, .count = ubatch.num_rows});
  }
  const KvGatherReference reference(scenario_, step.batch, ubatches);
  Comparison gather;
  for (int layer = 0; layer < scenario_.layers; ++layer) {
    gather.merge(reference.check(layer, engine.read_gathered_kv(step.run, layer)));
  }
  report.checks.push_back({"kv_gather", gather});
}

// Outputs of the last layer, put together from the ranks that hold each head.
StepOutput StepChecker::read_output(const Engine& engine, const StepRun& run) const {
  const StepShape& shape = run.step->ranks[0].shape;
  const LayerValues values = engine.read_layer(run, shape.layers - 1);
  const auto rows = static_cast<std::size_t>(shape.num_tokens);
  const auto heads = static_cast<std::size_t>(shape.num_heads);
  const auto dim = static_cast<std::size_t>(shape.head_dim);
  StepOutput output{.rows = run.layout.rows, .num_heads = shape.num_heads};
  output.out.resize(rows * heads * dim);
  output.lse.resize(shape.return_lse ? rows * heads : 0);
  output.held.resize(heads, false);
  for (const RankLayerValues& rank : values.ranks) {
    const auto own = static_cast<std::size_t>(rank.num_out_heads);
    const auto first = static_cast<std::size_t>(rank.first_out_head);
    std::fill_n(output.held.begin() + static_cast<std::ptrdiff_t>(first), own, true);
    for (std::size_t row = 0; row < rows && own > 0; ++row) {
      const std::size_t to = row * heads + first;
      std::copy_n(rank.out.begin() + static_cast<std::ptrdiff_t>(row * own * dim), own * dim,
                  output.out.begin() + static_cast<std::ptrdiff_t>(to * dim));
      if (rank.lse.empty()) continue;
      std::copy_n(rank.lse.begin() + static_cast<std::ptrdiff_t>(row * own), own,
                  output.lse.begin() + static_cast<std::ptrdiff_t>(to));
    }
  }
  return output;
}

void StepChecker::hold_to_outputs(const CheckedStep& step, const StepOutput& output,
                                  const LayerResult& right, StepReport& report) const {
  const Expect& expect = step.expect;
  for (const LevelReport& check : report.checks) {
    if (!check.comparison.first_bad) continue;
    if (expects_mismatch(expect)) {
      report.failures.push_back(
          {"mismatch", check.comparison.first_bad->at.rank, bad_value_text(check)});
    } else {
      report.problems.push_back(bad_value_text(check));
    }
  }
  if (is_held_to_reference(expect, report) || names_values(expect)) {
    compare_expected_values(expect, output, right, report.problems);
  }
  if (expect.empty_rows) {
    const auto empty = observed_empty_rows(output, step.run.step->rows);
    if (empty != *expect.empty_rows) {
      report.problems.push_back("expect.empty_rows: rows " + list_text(empty) +
                                " are empty, expected " + list_text(*expect.empty_rows));
    }
  }
  if (expect.eager_rows && *expect.eager_rows != step.run.eager_rows) {
    report.problems.push_back("expect.eager_rows: " + std::to_string(step.run.eager_rows) +
                              " rows ran without a graph, expected " +
                              std::to_string(*expect.eager_rows));
  }
}

void StepChecker::hold_to_bits(const CheckedStep& step, const StepOutput& output,
                               StepReport& report) const {
  if (!step.expect.same_bits_as) return;
  const std::string& name = *step.expect.same_bits_as;
  const auto other = outputs_.find(name);
  if (other == outputs_.end()) {
    report.problems.push_back("expect.same_bits_as: step " + name + " has left no result");
    return;
  }
  const auto count = static_cast<std::size_t>(output.rows * output.num_heads);
  const auto dim = static_cast<std::size_t>(step.run.step->ranks[0].shape.head_dim);
  const bool same = other->second.rows == output.rows &&
                    same_bits(output.out, other->second.out, count * dim) &&
                    same_bits(output.lse, other->second.lse, output.lse.empty() ? 0 : count);
  if (same) return;
  const std::string text = "expect.same_bits_as: the bits differ from those of step " + name;
  const bool is_right = !report.checks.empty() && report.hazards.empty() &&
                        report.problems.empty() && report.failures.empty();
  if (!is_right) {
    report.problems.push_back(text);
    return;
  }
  report.hazards.push_back({.kind = "not_bit_stable",
                            .graph = report.graph,
                            .buffer = "out",
                            .why = text + ", and both are within the tolerance",
                            .advice = "fix the order of the sums: it must not depend on a host "
                                      "value"});
}

void StepChecker::describe_ranks(const StepRun& run, StepReport& report) const {
  const BatchLayout& layout = run.layout;
  for (int rank = 0; rank < scenario_.world_size; ++rank) {
    RankReport mine{.seq_lens = layout.local_seq_lens[rank],
                    .empty_rows = empty_rows_of(scenario_, run, rank)};
    report.ranks.push_back(std::move(mine));
  }
}

}  // namespace dcp
