// Input data of a scenario, as a pure function of where an element stands: the same element has the
// same value whatever the world size, interleave, strategy, backend or padding.
#pragma once

#include <cstdint>
#include <span>

#include "core/scenario.hpp"

namespace dcp {

class InputData {
 public:
  explicit InputData(const Scenario& scenario);

  // Query of global position `position` of `request` for `head` of the group at layer 0: [Dq],
  // rounded to the scenario's dtype. random: standard normal; mean and given: 0.
  void query(int request, std::int64_t position, int head, std::span<float> out) const;

  // Key of global token `token` (one KV head): MLA [Dq], whose first D elements are the value.
  // `owner` is the rank that holds the token; data of kind mean is owner + 1 in every element.
  void key(int layer, int request, std::int64_t token, int owner, std::span<float> out) const;

 private:
  DataKind kind_;
  std::uint64_t seed_;
  DType dtype_;
};

}  // namespace dcp
