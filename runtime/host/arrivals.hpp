// What happens on the simulated machine without being an op: the scheduler decides when.
#pragma once

#include <cstddef>
#include <string>

namespace dcp {

// One thing that may happen next: something that rank `from` did gets to rank `to`.
struct Arrival {
  int from = 0;
  int to = 0;
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
