// What vLLM demands of a deployment with decode context parallelism, held against a scenario. The
// simulator itself runs more than that: a scenario may be illegal there and still be computed here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/scenario.hpp"

namespace dcp {

struct LegalityVerdict {
  std::string_view rule;  // what is demanded, as a formula over the scenario's keys
  bool holds;
  std::string why;  // the scenario's numbers, and what the rule is for
};

// One verdict for each rule that applies to the scenario, in a fixed order.
std::vector<LegalityVerdict> vllm_legality(const Scenario& scenario);

}  // namespace dcp
