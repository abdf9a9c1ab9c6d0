#include "cli/check_text.hpp"

#include <cmath>
#include <iomanip>
#include <ostream>
#include <sstream>

#include "cli/shell_word.hpp"
#include "core/printable_text.hpp"

namespace dcp {

namespace {

constexpr int kNameWidth = 24;
constexpr int kStrategyWidth = 10;
constexpr int kRatioWidth = 9;

// The worst error over its tolerance; "-" where nothing was compared.
std::string ratio(const std::optional<Comparison>& comparison) {
  if (!comparison) return "-";
  const double value = comparison->max_error_over_tolerance;
  if (std::isinf(value)) return "inf";
  std::ostringstream text;
  if (value < 1000) {
    text << std::fixed << std::setprecision(3) << value;
  } else {
    text << std::scientific << std::setprecision(1) << value;
  }
  return text.str();
}

std::string title(const VectorVerdict& verdict) {
  return verdict.strategy + (verdict.variant.empty() ? "" : " " + verdict.variant);
}

std::string send_word(const VectorVerdict& verdict) {
  if (!verdict.send) return "-";
  return verdict.send->wrong ? "differ" : "equal";
}

std::string status_word(bool passed, const CheckText& style) {
  const std::string word = passed ? "pass" : "FAIL";
  if (!style.color) return word;
  return (passed ? "\x1b[32m" : "\x1b[31m") + word + "\x1b[0m";
}

std::string hex(std::uint32_t bits) {
  std::ostringstream text;
  text << "0x" << std::hex << bits;
  return text.str();
}

std::string element_text(const FirstBad& bad) {
  std::string text = bad.at.element < 0 ? "lse of " : "out of ";
  text += "rank " + std::to_string(bad.at.rank) + ", row " + std::to_string(bad.at.row) +
          ", head " + std::to_string(bad.at.head);
  if (bad.at.element >= 0) text += ", element " + std::to_string(bad.at.element);
  return text + ": got " + number_text(bad.got) + ", want " + number_text(bad.want);
}

std::string lane_text(const WrongLane& wrong) {
  return "send buffer of rank " + std::to_string(wrong.rank) + " to rank " +
         std::to_string(wrong.peer) + ", row " + std::to_string(wrong.row) + ", head " +
         std::to_string(wrong.head) + ", lane " + std::to_string(wrong.lane) + ": got " +
         hex(wrong.got) + ", want " + hex(wrong.want);
}

// Status, case and who combined.
void print_row_head(std::ostream& out, const CheckedCase& checked, bool passed,
                    const std::string& who, const CheckText& style) {
  out << status_word(passed, style) << "  " << std::left << std::setw(kNameWidth)
      << printable_text(checked.name) << "  " << std::setw(kStrategyWidth) << who << std::right;
}

void print_row(std::ostream& out, const CheckedCase& checked, const VectorVerdict& verdict,
               const CheckText& style) {
  const bool ran = verdict.failure.empty();
  const auto column = std::setw(kRatioWidth);
  print_row_head(out, checked, verdict.passed(), title(verdict), style);
  out << column << (ran ? ratio(verdict.ours.out) : "-") << column
      << (ran ? ratio(verdict.ours.lse) : "-") << column << send_word(verdict) << column
      << ratio(verdict.seed_out) << column << ratio(verdict.seed_lse)
      << (verdict.seed_passed() ? "" : "  seed outside") << '\n';
}

void print_problem(std::ostream& out, const CheckedCase& checked, const std::string& who,
                   const std::string& problem) {
  out << "      "
      << printable_text(checked.files.front() + ": " + checked.name + ", " + who + ": " + problem)
      << '\n';
}

void print_problems(std::ostream& out, const CheckedCase& checked, const VectorVerdict& verdict) {
  const auto line = [&](const std::string& problem) {
    print_problem(out, checked, title(verdict), problem);
  };
  if (!verdict.failure.empty()) line(verdict.failure);
  if (verdict.ours.out.first_bad) line(element_text(*verdict.ours.out.first_bad));
  if (verdict.ours.lse.first_bad) line(element_text(*verdict.ours.lse.first_bad));
  if (verdict.send && verdict.send->wrong) line(lane_text(*verdict.send->wrong));
}

std::string reproduce_text(const CheckedCase& checked) {
  std::string text = "      reproduce: ./dcpsim check";
  for (const std::string& file : checked.files) text += " " + in_shell(file);
  return text;
}

void print_engine(std::ostream& out, const CheckedCase& checked, const CheckText& style) {
  const EngineVerdict& verdict = *checked.engine;
  const auto column = std::setw(kRatioWidth);
  print_row_head(out, checked, verdict.passed(), "engine", style);
  out << column << (verdict.has_out ? ratio(verdict.engine.out) : "-") << column
      << (verdict.has_lse ? ratio(verdict.engine.lse) : "-") << column << "-" << column << "-"
      << column << "-" << '\n';
  if (verdict.passed()) return;
  const auto line = [&](const std::string& problem) {
    print_problem(out, checked, "engine", problem);
  };
  if (verdict.engine.out.first_bad) line(element_text(*verdict.engine.out.first_bad));
  if (verdict.engine.lse.first_bad) line(element_text(*verdict.engine.lse.first_bad));
  for (const Explanation& explanation : verdict.explanations) {
    out << "      reproduced by " << explanation.name << ": " << explanation.text << '\n';
  }
  if (verdict.explanations.empty()) {
    out << "      none of the known faults reproduces these numbers\n";
  }
  out << reproduce_text(checked) << '\n';
}

}  // namespace

void print_check_head(std::ostream& out, const std::string& file, const std::string& source) {
  const std::string indent(6, ' ');
  out << printable_text(file + (source.empty() ? "" : ": " + source)) << '\n'
      << indent << std::left << std::setw(kNameWidth + kStrategyWidth + 2) << "" << std::right
      << "error over tolerance     send    the file's own error\n"
      << indent << std::left << std::setw(kNameWidth) << "case"
      << "  " << std::setw(kStrategyWidth) << "strategy" << std::right << std::setw(kRatioWidth)
      << "out" << std::setw(kRatioWidth) << "lse" << std::setw(kRatioWidth) << "bits"
      << std::setw(kRatioWidth) << "out" << std::setw(kRatioWidth) << "lse" << '\n';
}

void print_checked_case(std::ostream& out, const CheckedCase& checked, std::uint64_t seed,
                        const CheckText& style) {
  for (const VectorVerdict& verdict : checked.verdicts) {
    if (!verdict.variant.empty() && verdict.passed() && !style.variants) continue;
    print_row(out, checked, verdict, style);
    if (verdict.passed()) continue;
    print_problems(out, checked, verdict);
    out << reproduce_text(checked) << " --filter " << in_shell(checked.name) << " --strategy "
        << verdict.strategy << " --seed " << seed << '\n';
  }
  if (checked.engine) print_engine(out, checked, style);
}

}  // namespace dcp
