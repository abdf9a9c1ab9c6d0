#include "core/merged_expect.hpp"

namespace dcp {

void lay_over(Expect& expect, const Expect& own) {
  for (const auto& [row, value] : own.out) expect.out[row] = value;
  for (const auto& [row, value] : own.lse) expect.lse[row] = value;
  if (own.empty_rows) expect.empty_rows = own.empty_rows;
  if (!own.hazards.empty()) expect.hazards = own.hazards;
  if (!own.failures.empty()) expect.failures = own.failures;
  if (own.error) expect.error = own.error;
  if (own.same_bits_as) expect.same_bits_as = own.same_bits_as;
  if (own.eager_rows) expect.eager_rows = own.eager_rows;
}

Expect own_expectation_of(const Step& step, std::string_view strategy) {
  Expect expect = step.expect.value_or(Expect{});
  const auto found = expect.by_strategy.find(std::string(strategy));
  if (found == expect.by_strategy.end()) return expect;
  const Expect own = found->second;
  lay_over(expect, own);
  return expect;
}

Expect expectation_of(const Step& step, std::string_view strategy) {
  Expect expect = own_expectation_of(step, strategy);
  const auto* together = std::get_if<verb::Together>(&step.verb);
  if (together == nullptr) return expect;
  for (const Step& each : together->steps) lay_over(expect, expectation_of(each, strategy));
  return expect;
}

bool leaves_result(std::string_view failure_kind) { return failure_kind == "mismatch"; }

}  // namespace dcp
