#include "cli/run_text.hpp"

#include <iomanip>
#include <ostream>
#include <sstream>

#include "core/printable_text.hpp"
#include "harness/expectation.hpp"

namespace dcp {

namespace {

std::string_view word(Status status) {
  switch (status) {
    case Status::kPass:
      return "pass";
    case Status::kFail:
      return "FAIL";
    case Status::kError:
      return "REFUSED";
  }
  return "?";
}

std::string colored(std::string_view text, Status status, const RunText& style) {
  if (!style.color) return std::string(text);
  const std::string_view code = status == Status::kPass ? "\x1b[32m" : "\x1b[31m";
  return std::string(code) + std::string(text) + "\x1b[0m";
}

std::string milliseconds(double seconds) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(seconds < 0.01 ? 1 : 0) << seconds * 1e3 << " ms";
  return text.str();
}

std::string ratio(double value) {
  std::ostringstream text;
  text << std::setprecision(2) << value;
  return text.str();
}

std::string launched(const StepReport& step) {
  const std::string rows = std::to_string(step.rows) + " rows";
  if (!step.graph.empty()) return "graph " + printable_text(step.graph) + ", " + rows;
  if (step.eager_rows > 0) return "no graph holds them, eager, " + rows;
  return "eager, " + rows;
}

void print_computed(std::ostream& out, const StepReport& step) {
  out << "        " << launched(step) << ", " << step.egress_bytes << " bytes sent per rank\n";
  for (std::size_t rank = 0; rank < step.ranks.size(); ++rank) {
    out << "        rank " << rank << ": local keys " << list_text(step.ranks[rank].seq_lens)
        << ", empty rows " << list_text(step.ranks[rank].empty_rows) << '\n';
  }
  if (step.checks.empty()) return;
  out << "        error over tolerance:";
  for (const LevelReport& check : step.checks) {
    out << ' ' << check.level << ' ' << ratio(check.comparison.max_error_over_tolerance);
  }
  out << '\n';
}

void print_step(std::ostream& out, const StepReport& step, const RunText& style) {
  if (!style.steps && step.status != Status::kFail) return;
  out << "  " << colored(word(step.status), step.status, style) << "  step " << step.index << ' '
      << step.verb << (step.what.empty() ? "" : " ") << printable_text(step.what)
      << (step.name.empty() ? "" : " (" + printable_text(step.name) + ")")
      << (step.status == Status::kFail ? "  " + step.place.text() : "") << '\n';
  if (style.steps && !step.ranks.empty()) print_computed(out, step);
  if (style.steps && step.status == Status::kPass) {
    if (step.error)
      out << "        expected error " << step.error->kind << ": "
          << printable_text(step.error->why) << '\n';
    for (const audit::Finding& hazard : step.hazards) {
      out << "        expected hazard " << printable_text(hazard_text(hazard)) << '\n';
    }
    for (const FailureReport& failure : step.failures) {
      out << "        expected failure " << failure.kind << ": " << printable_text(failure.why)
          << '\n';
    }
  }
  for (const std::string& problem : step.problems) {
    out << "        " << printable_text(problem) << '\n';
  }
}

// Where a replay found no graph, or all is wanted: which numbers of rows have none.
void print_coverage(std::ostream& out, const Coverage& coverage, const RunText& style) {
  const auto first = coverage.first_uncovered();
  const bool has_gap = first && !coverage.graph_sizes.empty();
  if (coverage.ran_eagerly.empty() && !(style.steps && has_gap)) return;
  out << "  graphs for " << list_text(coverage.graph_sizes) << " rows";
  if (first) out << "; none for " << *first;
  if (first && *first != coverage.max_num_tokens) out << " to " << coverage.max_num_tokens;
  for (const auto& [rows, steps] : coverage.ran_eagerly) {
    out << "; " << rows << " rows ran eagerly in " << steps << (steps == 1 ? " step" : " steps");
  }
  out << '\n';
}

// What can be pasted in the place of the schedule's name, where that is no matter of pages.
void print_schedule(std::ostream& out, const std::string& schedule) {
  constexpr std::size_t kLongest = 2000;
  if (schedule.empty()) return;
  out << "  as it was: ";
  if (schedule.size() <= kLongest) {
    out << "--schedule " << schedule << '\n';
  } else {
    out << schedule.size() << " characters, in the report of '--json'\n";
  }
}

}  // namespace

void print_scenario(std::ostream& out, const ScenarioReport& report, const RunText& style,
                    const std::string& reproduce) {
  out << colored(word(report.status), report.status, style) << "  " << printable_text(report.file)
      << "  " << report.strategy << "  " << report.steps.size() << " steps  "
      << milliseconds(report.seconds) << '\n';
  for (const StepReport& step : report.steps) print_step(out, step, style);
  print_coverage(out, report.coverage, style);
  if (!report.bad_input.empty()) out << "  " << report.bad_input << '\n';
  if (report.status != Status::kFail) return;
  out << "  reproduce: " << reproduce << '\n';
  print_schedule(out, report.schedule);
}

}  // namespace dcp
