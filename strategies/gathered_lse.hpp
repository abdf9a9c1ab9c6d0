// The first half of both all-gather strategies: all-gather of the LSEs -> correct, which masks what
// ranks report for their empty rows. Leaves this rank's share (w_rank / s) * out of every head,
// ready to be summed over the ranks, and the global LSE.
#pragma once

#include "strategies/strategy.hpp"

namespace dcp {

// Buffers lse_recv [N, T, H] and, where shape.copies_lse, lse_send [T, H], fp32.
void plan_gathered_lse(const StepShape& shape, BufferPlan& plan);

struct ScaledShare {
  HeadRows out;        // [T, H, D] in the dtype of the reduction
  float* lse;          // [T, num_lse_heads]; null: not wanted
  int first_lse_head;  // heads of which the global LSE is stored
  int num_lse_heads;
};

void enqueue_scaled_share(const Lane& lane, const StepShape& shape, const BufferSet& buffers,
                          const Partials& partials, const ScaledShare& share);

}  // namespace dcp
