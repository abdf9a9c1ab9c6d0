// The persistent inputs of one rank: allocated once, at addresses that captured graphs hold, and
// loaded with a new batch before every step.
#pragma once

#include <cstdint>
#include <vector>

#include "core/data.hpp"
#include "core/scenario.hpp"
#include "engine/batch_layout.hpp"
#include "engine/capacity.hpp"
#include "engine/step_inputs.hpp"
#include "engine/step_plan.hpp"

namespace dcp {

class RankInputs {
 public:
  RankInputs(Runtime& runtime, const Scenario& scenario, const StepPlan& plan,
             const Capacity& capacity, int rank);

  const StepInputs& view() const { return view_; }
  const BufferSet& buffers() const { return buffers_; }

  // Enqueues the copies of the batch's metadata, tails reset, from pinned staging of this class.
  // Two stagings are used in turn: the one before the last must have been read.
  void load_metadata(Stream stream, const BatchLayout& layout);

  // Writes the batch's data: the keys of earlier tokens into the cache as earlier steps would have,
  // this step's keys and queries into the inputs. Only while nothing is pending.
  void load_data(const InputData& data, const BatchLayout& layout);

  // What attention leaves in empty rows from here on.
  void set_stub(verb::StubMode mode);

 private:
  bool splits_attention() const;  // new tokens are attended to apart from the context
  void allocate_all(const Capacity& capacity);
  std::byte* allocate(std::string_view name, std::size_t size_bytes);
  void load_cache(const InputData& data, const BatchLayout& layout, const RankBatch& batch);
  void load_new_tokens(const InputData& data, const BatchLayout& layout);
  void load_given(const BatchLayout& layout);

  Runtime& runtime_;
  const Scenario& scenario_;
  StepShape shape_;
  int num_input_heads_;
  Shard shard_;
  Capacity capacity_;
  BufferSet buffers_;
  StepInputs view_{};
  Buffer staging_[2];
  int next_staging_ = 0;
  std::vector<std::int32_t> used_pages_;  // by the batch that was loaded last
};

}  // namespace dcp
