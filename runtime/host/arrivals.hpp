// What happens on the simulated machine without being an op: the scheduler decides when.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dcp {

// One thing that may happen next: something that rank `from` did gets to rank `to`.
struct Arrival {
  enum Kind : std::uint8_t {
    kLanding,  // it gets there; only an acquire makes it be in effect
    kEffect,   // it is in effect without one
    kFlag,     // it is polled: it gets there and is in effect
  };
  int from = 0;
  int to = 0;
  Kind kind = kLanding;
  std::int64_t number = 0;  // of the sender's stores
  const std::byte* at = nullptr;
  std::size_t size_bytes = 0;
  bool holds_up = false;  // a later store of the sender to these bytes waits for it
};

class Arrivals {
 public:
  virtual ~Arrivals() = default;

  // How many things may happen next, in an order that depends on the past only; and the i-th.
  virtual std::size_t count() const = 0;
  virtual Arrival at(std::size_t i) const = 0;
  virtual void happen(std::size_t i) = 0;

  virtual void forget() = 0;  // as when pending work is abandoned
};

}  // namespace dcp
