// How much memory a world may take. The host backend holds every rank's buffers in this machine's
// memory and never hands freed ranges out again, so a scenario that does not fit is refused before
// it is tried, and not ended by the operating system.
#pragma once

#include <string_view>

namespace dcp {

class MemoryBudget {
 public:
  MemoryBudget();  // a share of this machine's memory
  explicit MemoryBudget(double limit_bytes) : limit_bytes_(limit_bytes) {}

  // StepError capacity where the bytes do not fit beside those taken before. `what` they are for.
  void require(double size_bytes, std::string_view what) const;

  // The same, and they stay taken.
  void take(double size_bytes, std::string_view what);

 private:
  double limit_bytes_;
  double taken_bytes_ = 0;
};

}  // namespace dcp
