#include "harness/step_runner.hpp"

#include <algorithm>
#include <array>
#include <chrono>

#include "harness/verbs/verbs.hpp"
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

}  // namespace

StepRunner::StepRunner(const Scenario& scenario, const Strategy& strategy,
                       const RunOptions& options)
    : scenario_(scenario),
      strategy_(strategy),
      trace_(options.trace),
      session_(scenario, strategy, options) {}

void StepRunner::run(const Step& step, int index) {
  const auto begin = std::chrono::steady_clock::now();
  StepReport& report = reports_.emplace_back();
  report.index = index;
  report.place = step.place;
  report.name = step.name;
  report.verb = step.verb_name;
  report.what = text_of(step.verb);
  if (trace_ != nullptr) trace_->begin_step(index);
  try {
    perform(step, expectation_of(step, strategy_.name()), report);
  } catch (const Failure& failure) {
    if (!is_over()) throw;
    end_with(failure, step, report);
  } catch (...) {
    report.status = Status::kError;
    throw;
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void StepRunner::perform(const Step& step, const Expect& expect, StepReport& report) {
  bool is_settled = false;
  const Session::Settled settled = [this, &step, expect, &report] {
    hold_to_findings(step, expect, report);
  };
  session_.begin_step(step, report.index);
  try {
    std::visit(
        [&](const auto& verb) {
          dcp::perform(verb, VerbCall{session_, step, expect, report, settled});
        },
        step.verb);
    is_settled = !session_.is_deferred(report);
  } catch (const StepError& error) {
    report.error = {error.kind(), error.why()};
    report.graph.clear();
    is_settled = true;
  } catch (const ApiError& error) {
    report.error = {std::string(error.kind()), error.what()};
    report.graph.clear();
    is_settled = true;
  } catch (const Failure& failure) {
    if (is_over()) throw;
    is_settled = true;
    if (!session_.give_up(failure)) {
      report.failures.push_back({failure.kind(), failure.rank(), failure.why()});
    }
  }
  session_.audit(report);
  session_.end_step(step, report.error || !report.failures.empty());
  session_.settle();
  if (is_settled) hold_to_findings(step, expect, report);
}

// Where the run is over, nobody can be asked what else there is to say of the step.
void StepRunner::end_with(const Failure& failure, const Step& step, StepReport& report) {
  const bool is_deferred = session_.is_deferred(report);
  session_.abandon(failure);
  if (is_deferred) return;
  report.failures.push_back({failure.kind(), failure.rank(), failure.why()});
  hold_to_findings(step, expectation_of(step, strategy_.name()), report);
}

Coverage StepRunner::coverage() {
  if (!session_.has_engine()) return {};
  Coverage coverage{.graph_sizes = session_.engine().graph_sizes(),
                    .max_num_tokens = session_.engine().capacity().max_rows,
                    .ran_eagerly = {}};
  for (const StepReport& report : reports_) {
    if (report.eager_rows > 0) ++coverage.ran_eagerly[report.eager_rows];
  }
  return coverage;
}

void StepRunner::finish() {
  session_.finish();
  if (!session_.has_deferred()) return;
  Step sync;
  sync.verb = verb::Sync{};
  StepReport nobody;
  perform(sync, {}, nobody);
  std::vector<std::string>& problems = reports_.back().problems;
  problems.insert(problems.end(), nobody.problems.begin(), nobody.problems.end());
  if (!problems.empty()) reports_.back().status = Status::kFail;
}

void StepRunner::hold_to_findings(const Step& step, const Expect& expect,
                                  StepReport& report) const {
  if (report.error && expect.error != report.error->kind) {
    const std::string text = report.error->kind + ": " + report.error->why;
    if (!expect.error && is_bad_input(report.error->kind)) {
      const bool is_of_batch = report.error->kind != "no_such_graph";
      const std::string name = is_of_batch ? batch_of(step.verb) : "";
      throw InputError(name.empty() ? step.place : session_.batch(name).place, text);
    }
    report.problems.push_back("error " + text +
                              (expect.error ? " (expected " + *expect.error + ")" : ""));
  }
  if (!report.error && expect.error) {
    report.problems.push_back("expected error " + *expect.error + ", the step went through");
  }
  if (step.expect || !changes_memory(step.verb)) hold_to_hazards(expect, report);
  hold_to_failures(expect, report);
  if (!report.problems.empty()) report.status = Status::kFail;
}

}  // namespace dcp
