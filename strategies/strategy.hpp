// How the partials of all ranks become the combined output. One file per strategy; registry.cpp
// has one line for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/empty_ranks.hpp"
#include "kernels/head_rows.hpp"
#include "strategies/buffers.hpp"
#include "strategies/lane.hpp"
#include "strategies/step_shape.hpp"

namespace dcp {

// What attention left on this rank, over its own keys. Never written by a strategy.
struct Partials {
  ConstHeadRows out;                           // [T, H, D], any row and head stride
  ConstHeadRows lse;                           // [T, H], base and dtype of shape.lse
  const std::uint64_t* empty_ranks = nullptr;  // [T] (empty_ranks.hpp); null: no row is empty
};

inline EmptyRows empty_rows(const StepShape& shape, const Partials& partials) {
  return {.empty_ranks = partials.empty_ranks, .rank = shape.rank};
}

// What the strategy leaves: [T, h, D] of this rank's heads, or [T, H, D] where keeps_all_heads().
struct Combined {
  HeadRows out;
  float* lse;  // [T, h or H] contiguous; null: not wanted
};

class Strategy {
 public:
  virtual ~Strategy() = default;

  virtual std::string_view name() const = 0;
  virtual std::string_view describe() const = 0;  // one line for `list`

  // Whether every rank ends with all H heads rather than its own h.
  virtual bool keeps_all_heads() const = 0;

  // Whether it has another strategy do what it has no room for.
  virtual bool falls_back(const DirectSpec& /*direct*/) const { return false; }

  // Whether it stores to the memory of its peers, which must then be able to address it.
  virtual bool uses_peer_memory() const { return false; }

  // What really combines a step of this shape: another strategy where this one has no room for it.
  // The same on all ranks, which have the same rows.
  virtual const Strategy& effective(const StepShape& /*shape*/) const { return *this; }

  // Adds the buffers that enqueue() will look up.
  virtual void plan(const StepShape& shape, BufferPlan& plan) const = 0;

  virtual void enqueue(const Lane& lane, const StepShape& shape, const BufferSet& buffers,
                       const Partials& partials, const Combined& combined) const = 0;

  // Bytes that one rank sends to others per step and layer.
  virtual std::size_t egress_bytes(const StepShape& shape) const = 0;

  // How many of them are saved by a row that is empty on the rank.
  virtual std::size_t unsent_bytes_per_empty_row(const StepShape& /*shape*/) const { return 0; }
};

}  // namespace dcp
