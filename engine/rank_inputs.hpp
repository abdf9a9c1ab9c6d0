// The persistent inputs of one rank: allocated once, at addresses that captured graphs hold, and
// loaded with a new batch before every step.
#pragma once

#include <cstdint>
#include <vector>

#include "core/data.hpp"
#include "core/scenario.hpp"
#include "engine/batch_layout.hpp"
#include "engine/capacity.hpp"
#include "engine/metadata.hpp"
#include "engine/step_inputs.hpp"
#include "engine/step_plan.hpp"
#include "engine/ubatches.hpp"

namespace dcp {

class RankInputs {
 public:
  RankInputs(Runtime& runtime, const Scenario& scenario, const StepPlan& plan,
             const Capacity& capacity, int rank);

  // What a ubatch reads whose first row is `first_row` of the step.
  StepInputs view(int ubatch, std::int64_t first_row) const;

  const BufferSet& buffers() const { return buffers_; }
  const BufferSet& metadata(int ubatch) const { return metadata_.at(ubatch).buffers(); }

  // Enqueues the copies of each ubatch's part of the batch's metadata.
  void load_metadata(Stream stream, const BatchLayout& layout, const std::vector<Ubatch>& ubatches);

  // Writes the batch's data: the keys of earlier tokens into the cache as earlier steps would have,
  // this step's keys and queries into the inputs. Only while nothing is pending.
  void load_data(const InputData& data, const BatchLayout& layout);

  // What attention leaves in empty rows from here on.
  void set_stub(verb::StubMode mode);

 private:
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
  StepInputs view_{};                     // without metadata, from row 0
  std::vector<Metadata> metadata_;        // per ubatch
  std::vector<std::int32_t> used_pages_;  // by the batch that was loaded last
};

}  // namespace dcp
