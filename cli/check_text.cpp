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

std::string number(double value) {
  std::ostringstream text;
  text << std::setprecision(9) << value;
  return text.str();
}

std::string element_text(const FirstBad& bad) {
  std::string text = bad.at.element < 0 ? "lse of " : "out of ";
  text += "rank " + std::to_string(bad.at.rank) + ", row " + std::to_string(bad.at.row) +
          ", head " + std::to_string(bad.at.head);
  if (bad.at.element >= 0) text += ", element " + std::to_string(bad.at.element);
  return text + ": got " + number(bad.got) + ", want " + number(bad.want);
}

std::string lane_text(const WrongLane& wrong) {
  return "send buffer of rank " + std::to_string(wrong.rank) + " to rank " +
         std::to_string(wrong.peer) + ", row " + std::to_string(wrong.row) + ", head " +
         std::to_string(wrong.head) + ", lane " + std::to_string(wrong.lane) + ": got " +
         hex(wrong.got) + ", want " + hex(wrong.want);
}

void print_row(std::ostream& out, const CheckedCase& checked, const VectorVerdict& verdict,
               const CheckText& style) {
  const bool ran = verdict.failure.empty();
  const auto column = std::setw(kRatioWidth);
  out << status_word(verdict.passed(), style) << "  " << std::left << std::setw(kNameWidth)
      << printable_text(checked.name) << "  " << std::setw(kStrategyWidth) << title(verdict)
      << std::right << column << (ran ? ratio(verdict.ours.out) : "-") << column
      << (ran ? ratio(verdict.ours.lse) : "-") << column << send_word(verdict) << column
      << ratio(verdict.seed_out) << column << ratio(verdict.seed_lse)
      << (verdict.seed_passed() ? "" : "  seed outside") << '\n';
}

void print_problems(std::ostream& out, const CheckedCase& checked, const VectorVerdict& verdict) {
  const auto line = [&](const std::string& problem) {
    out << "      "
        << printable_text(checked.file + ": " + checked.name + ", " + title(verdict) + ": " +
                          problem)
        << '\n';
  };
  if (!verdict.failure.empty()) line(verdict.failure);
  if (verdict.ours.out.first_bad) line(element_text(*verdict.ours.out.first_bad));
  if (verdict.ours.lse.first_bad) line(element_text(*verdict.ours.lse.first_bad));
  if (verdict.send && verdict.send->wrong) line(lane_text(*verdict.send->wrong));
}

}  // namespace

void print_check_head(std::ostream& out, const std::string& file, const std::string& source) {
  const std::string indent(6, ' ');
  out << printable_text(file + (source.empty() ? "" : ": " + source)) << '\n'
      << indent << std::left << std::setw(kNameWidth + kStrategyWidth + 2) << "" << std::right
      << "error over tolerance     send    the seed's own error\n"
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
    out << "      reproduce: ./dcpsim check " << in_shell(checked.file) << " --filter "
        << in_shell(checked.name) << " --strategy " << verdict.strategy << " --seed " << seed
        << '\n';
  }
}

}  // namespace dcp
