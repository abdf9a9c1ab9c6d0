// What a scenario does to single operations, for faults on purpose. A runtime that can be disturbed
// asks about each op before it adds it: to a stream, to a capture, or as a node of a launch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/op.hpp"

namespace dcp {

struct Operation {
  int rank;
  std::string_view name;  // the op's, or its label where it has one
  bool is_captured;       // it becomes a node now, and runs with each launch
};

struct Verdict {
  enum Kind : std::uint8_t { kRun, kSkip, kHold } kind = kRun;
  int hold = 0;  // which of the holds
};

class Interference {
 public:
  virtual ~Interference() = default;

  // May throw instead. A node of a launch that is captured has been asked about twice.
  virtual Verdict judge(const Operation& operation) = 0;

  // Of what was held: whether it may run now, and what it waits for.
  virtual bool is_released(int hold) const = 0;
  virtual std::string waits_for(int hold) const = 0;
};

}  // namespace dcp
