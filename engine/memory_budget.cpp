#include "engine/memory_budget.hpp"

#include <unistd.h>

#include <sstream>

#include "core/error.hpp"

namespace dcp {

namespace {

// Other scenarios may run at the same time, and other programs.
constexpr double kShare = 0.3;

std::string gigabytes(double size_bytes) {
  std::ostringstream text;
  text.precision(3);
  text << size_bytes / 1e9 << " GB";
  return text.str();
}

}  // namespace

MemoryBudget::MemoryBudget()
    : limit_bytes_(kShare * static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                   static_cast<double>(sysconf(_SC_PAGESIZE))) {}

void MemoryBudget::require(double size_bytes, std::string_view what) const {
  if (taken_bytes_ + size_bytes <= limit_bytes_) return;
  throw StepError("capacity", std::string(what) + " of all ranks take " + gigabytes(size_bytes) +
                                  ", " + gigabytes(taken_bytes_) +
                                  " are taken already, and this machine allows " +
                                  gigabytes(limit_bytes_));
}

void MemoryBudget::take(double size_bytes, std::string_view what) {
  require(size_bytes, what);
  taken_bytes_ += size_bytes;
}

}  // namespace dcp
