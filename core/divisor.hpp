// Division by a number that is known before a kernel starts, by a product and a shift: Granlund and
// Montgomery, "Division by invariant integers using multiplication", 1994.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"

namespace dcp {

class Divisor {
 public:
  // `value` from 1 to 2^31.
  constexpr explicit Divisor(std::uint32_t value) : value_(value) {
    while ((std::uint64_t{1} << shift_) < value) ++shift_;
    const std::uint64_t above = (std::uint64_t{1} << shift_) - value;
    factor_ = static_cast<std::uint32_t>((above << 32) / value + 1);
  }

  // n / value, for n below 2^31.
  DCP_HOST_DEVICE constexpr std::uint32_t of(std::uint32_t n) const {
    const auto high = static_cast<std::uint32_t>(std::uint64_t{n} * factor_ >> 32);
    return (high + n) >> shift_;
  }

  DCP_HOST_DEVICE constexpr std::uint32_t value() const { return value_; }

 private:
  std::uint32_t value_;
  std::uint32_t factor_ = 0;
  std::uint32_t shift_ = 0;
};

}  // namespace dcp
