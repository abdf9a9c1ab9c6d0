#include "harness/expectation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/printable_text.hpp"

namespace dcp {

std::string_view name(Status status) {
  switch (status) {
    case Status::kPass:
      return "pass";
    case Status::kFail:
      return "fail";
    case Status::kError:
      return "error";
  }
  return "?";
}

// Bits that differ are a hazard of results that are right.
bool checks_reference(const Expect& expect) {
  const bool lifts =
      std::any_of(expect.hazards.begin(), expect.hazards.end(),
                  [](const auto& wanted) { return wanted.kind != "not_bit_stable"; });
  return !lifts && expect.failures.empty() && !expect.error;
}

bool expects_mismatch(const Expect& expect) {
  return std::any_of(expect.failures.begin(), expect.failures.end(),
                     [](const ExpectedFinding& wanted) { return wanted.kind == "mismatch"; });
}

bool names_values(const Expect& expect) { return !expect.out.empty() || !expect.lse.empty(); }

bool is_held_to_reference(const Expect& expect, const StepReport& report) {
  return expects_mismatch(expect) ||
         (checks_reference(expect) && report.hazards.empty() && !report.is_tainted);
}

std::string list_text(const std::vector<std::int64_t>& values) {
  constexpr std::size_t kShown = 64;
  std::string text = "[";
  for (std::size_t i = 0; i < std::min(values.size(), kShown); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  }
  if (values.size() <= kShown) return text + "]";
  return text + ", ... (" + std::to_string(values.size()) + " in all)]";
}

namespace {

// Of what the entry names; ranks are merged where it names none.
bool matches(const ExpectedFinding& wanted, const audit::Finding& found) {
  return wanted.kind == found.kind && (!wanted.graph || *wanted.graph == found.graph) &&
         (!wanted.buffer || *wanted.buffer == found.buffer) &&
         (!wanted.node || *wanted.node == found.node) &&
         (!wanted.rank || *wanted.rank == found.rank) &&
         (!wanted.ubatch || *wanted.ubatch == found.ubatch);
}

}  // namespace

std::string hazard_text(const audit::Finding& hazard) {
  std::string text = hazard.kind;
  if (!hazard.graph.empty()) text += ", graph " + hazard.graph;
  if (hazard.rank >= 0) text += ", rank " + std::to_string(hazard.rank);
  if (hazard.ubatch > 0) text += ", ubatch " + std::to_string(hazard.ubatch);
  if (!hazard.buffer.empty()) {
    text += ", buffer " + hazard.buffer;
    if (hazard.generation > 0) text += "@" + std::to_string(hazard.generation);
  }
  return text + ": " + hazard.why + "; what to do: " + hazard.advice;
}

void hold_to_hazards(const Expect& expect, StepReport& report) {
  for (const audit::Finding& hazard : report.hazards) {
    const bool expected =
        std::any_of(expect.hazards.begin(), expect.hazards.end(),
                    [&](const ExpectedFinding& wanted) { return wanted.kind == hazard.kind; });
    const bool explains = expects_mismatch(expect) && expect.hazards.empty();
    if (!expected && !explains) report.problems.push_back("hazard " + hazard_text(hazard));
  }
  for (const ExpectedFinding& wanted : expect.hazards) {
    const bool found =
        std::any_of(report.hazards.begin(), report.hazards.end(),
                    [&](const audit::Finding& hazard) { return matches(wanted, hazard); });
    if (!found) report.problems.push_back("expected hazard " + wanted.kind + ", none was found");
  }
}

void hold_to_failures(const Expect& expect, StepReport& report) {
  const auto matches_failure = [&](const ExpectedFinding& wanted, const FailureReport& failure) {
    return wanted.kind == failure.kind && (!wanted.rank || *wanted.rank == failure.rank) &&
           (!wanted.graph || *wanted.graph == report.graph);
  };
  for (const FailureReport& failure : report.failures) {
    const bool expected = std::any_of(
        expect.failures.begin(), expect.failures.end(),
        [&](const ExpectedFinding& wanted) { return matches_failure(wanted, failure); });
    if (!expected) report.problems.push_back("failure " + failure.kind + ": " + failure.why);
  }
  for (const ExpectedFinding& wanted : expect.failures) {
    const bool found =
        std::any_of(report.failures.begin(), report.failures.end(),
                    [&](const FailureReport& failure) { return matches_failure(wanted, failure); });
    if (found) continue;
    report.problems.push_back(
        "expected failure " + wanted.kind + (wanted.graph ? ", graph " + *wanted.graph : "") +
        (wanted.rank ? ", rank " + std::to_string(*wanted.rank) : "") + ", none was seen");
  }
}

namespace {

bool within(double got, double want, double tolerance) {
  return got == want || std::abs(got - want) <= tolerance;  // false for NaN
}

// The first value of a row that misses `want`; elements per row follow from the sizes.
void compare_row(std::string_view what, std::int64_t row, double want, std::size_t num_rows,
                 const std::vector<float>& got, const std::vector<double>& tolerance,
                 const std::vector<bool>& held, std::vector<std::string>& problems) {
  const std::size_t per_row = num_rows == 0 ? 0 : got.size() / num_rows;
  const std::size_t begin = static_cast<std::size_t>(row) * per_row;
  if (row < 0 || begin + per_row > got.size()) {
    problems.push_back("expect." + std::string(what) + ": the step has no row " +
                       std::to_string(row));
    return;
  }
  const std::size_t per_head = per_row / held.size();
  for (std::size_t i = begin; i < begin + per_row; ++i) {
    if (!held[(i - begin) / per_head]) continue;
    if (within(got[i], want, tolerance[i])) continue;
    problems.push_back("expect." + std::string(what) + ": row " + std::to_string(row) + " is " +
                       number_text(got[i]) + ", expected " + number_text(want) + " within " +
                       number_text(tolerance[i]));
    return;
  }
}

}  // namespace

void compare_expected_values(const Expect& expect, const StepOutput& output,
                             const LayerResult& right, std::vector<std::string>& problems) {
  const auto heads = static_cast<std::size_t>(output.num_heads);
  const std::size_t num_rows = right.lse.size() / heads;
  for (const auto& [row, want] : expect.out) {
    compare_row("out", row, want, num_rows, output.out, right.out_tolerance, output.held, problems);
  }
  if (output.lse.empty() && !expect.lse.empty()) {
    problems.push_back("expect.lse: the step returns no lse (return_lse is false)");
    return;
  }
  for (const auto& [row, want] : expect.lse) {
    compare_row("lse", row, want, num_rows, output.lse, right.lse_tolerance, output.held, problems);
  }
}

std::vector<std::int64_t> observed_empty_rows(const StepOutput& output, std::int64_t num_rows) {
  constexpr float kEmpty = -std::numeric_limits<float>::infinity();
  std::vector<std::int64_t> empty;
  if (num_rows == 0) return empty;
  const std::size_t out_per_row = output.out.size() / static_cast<std::size_t>(num_rows);
  const std::size_t lse_per_row = output.lse.size() / static_cast<std::size_t>(num_rows);
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const auto r = static_cast<std::size_t>(row);
    // `count` values of each head.
    const auto all_are = [&](const std::vector<float>& values, std::size_t count, float wanted) {
      for (std::size_t i = 0; i < count; ++i) {
        const bool held = output.held[i * output.held.size() / count];
        if (held && values[r * count + i] != wanted) return false;
      }
      return true;
    };
    if (all_are(output.out, out_per_row, 0) && all_are(output.lse, lse_per_row, kEmpty)) {
      empty.push_back(row);
    }
  }
  return empty;
}

}  // namespace dcp
