// The persistent inputs of a rank as a list: what is allocated before the first capture, at
// addresses that graphs hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/scenario.hpp"
#include "engine/capacity.hpp"
#include "engine/step_plan.hpp"

namespace dcp {

struct InputSpec {
  std::string_view name;
  std::vector<std::int64_t> shape;  // elements, row-major
  std::string_view dtype;           // "bf16", "int32", ...
  std::size_t element_bytes;

  std::size_t size_bytes() const {
    std::size_t size = element_bytes;
    for (const std::int64_t dim : shape) size *= static_cast<std::size_t>(dim);
    return size;
  }
};

// Queries, new keys and values, cache and, where partials are given, those; and what attention
// leaves in empty rows.
std::vector<InputSpec> data_specs(const Scenario& scenario, const StepPlan& plan,
                                  const Capacity& capacity);

struct MetadataCapacity {
  std::int64_t rows;  // rows, and requests
  std::int64_t pages_per_request;
  bool new_tokens;  // also what is asked of new tokens where they are attended to apart
};

MetadataCapacity metadata_capacity(const Scenario& scenario, const Capacity& capacity);

// What each ubatch has of its own.
std::vector<InputSpec> metadata_specs(const MetadataCapacity& capacity);

}  // namespace dcp
