// A stored case through the strategies: results against the truth, the packed send buffer against
// the seed's bits, and the seed's own results beside them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/partials_check.hpp"
#include "harness/vector_file.hpp"

namespace dcp {

// The first lane of a send buffer that differs.
struct WrongLane {
  int rank = 0;  // the sender
  int peer = 0;
  std::int64_t row = 0;
  int head = 0;  // of the group
  int lane = 0;  // of D + lanes
  std::uint32_t got = 0;
  std::uint32_t want = 0;
};

struct SendVerdict {
  std::optional<WrongLane> wrong;
};

struct VectorVerdict {
  std::string strategy;
  std::string variant;  // "", "split" (a2a layout), "fp32" (reduce dtype), "fused" (form)
  CombineVerdict ours;  // against the truth
  std::optional<SendVerdict> send;  // where the seed's buffer has this layout and is stored
  std::optional<Comparison> seed_out;
  std::optional<Comparison> seed_lse;
  std::string failure;  // why the ranks did not get through; empty: they did

  bool passed() const {
    return failure.empty() && ours.passed() && !(send && send->wrong.has_value());
  }
  bool seed_passed() const {
    return (!seed_out || seed_out->passed()) && (!seed_lse || seed_lse->passed());
  }
};

struct VectorOptions {
  BackendChoice backend = {};
  std::uint64_t seed = 1;  // of the schedule
};

// One verdict per strategy, followed by those of its variants. The steps are captured and replayed;
std::vector<VectorVerdict> check_vector_case(const VectorCase& test,
                                             std::span<const Strategy* const> strategies,
                                             const VectorOptions& options);

}  // namespace dcp
