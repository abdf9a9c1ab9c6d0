// One stage of a layer: what buffers it needs and what it enqueues. Stages have no state and take
// no decision about the scenario: StepPlan chose them.
#pragma once

#include "engine/step_inputs.hpp"
#include "strategies/strategy.hpp"

namespace dcp {

struct StageContext {
  const Lane& lane;
  const StepShape& shape;
  const BufferSet& buffers;
  const StepInputs& inputs;
};

class Stage {
 public:
  virtual ~Stage() = default;
  virtual void plan(const StepShape& shape, BufferPlan& plan) const = 0;
  virtual void enqueue(const StageContext& context, int layer) const = 0;
};

// What a layer appends of this ubatch's tokens, and what it reads of all tokens of the step,
// [max_num_tokens, kv_row_dim]; and the layer's part of the paged cache.
const std::byte* new_kv_of_layer(const StageContext& context, int layer);
const std::byte* all_new_kv_of_layer(const StageContext& context, int layer);
std::byte* kv_cache_of_layer(const StageContext& context, int layer);

// The partials and the combined rows of a layer, as views of the step's activation buffers
// partial_out [layers, T, padded H, D], partial_lse [layers, T, padded H], out and lse
// [layers, T, h or H, ...].
void plan_activations(const StepShape& shape, bool keeps_all_heads, BufferPlan& plan);
HeadRows partial_out(const StepShape& shape, const BufferSet& buffers, int layer);
HeadRows partial_lse(const StepShape& shape, const BufferSet& buffers, int layer);
Combined combined_rows(const StepShape& shape, const BufferSet& buffers, bool keeps_all_heads,
                       int layer);

// Where new tokens are attended to apart: the two states that are merged, each as the combined rows
// but always with an LSE. Buffers context_out, context_lse, new_out, new_lse.
struct AttentionStates {
  Combined context;
  Combined new_tokens;
};
void plan_states(const StepShape& shape, bool keeps_all_heads, BufferPlan& plan);
AttentionStates states(const StepShape& shape, const BufferSet& buffers, bool keeps_all_heads,
                       int layer);

}  // namespace dcp
