// The persistent inputs of one rank: allocated once, at addresses that captured graphs hold, and
// loaded with a new batch before every step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/data.hpp"
#include "core/scenario.hpp"
#include "engine/batch_layout.hpp"
#include "engine/capacity.hpp"
#include "engine/metadata.hpp"
#include "engine/step_inputs.hpp"
#include "engine/step_plan.hpp"
#include "engine/ubatches.hpp"
#include "engine/upload.hpp"

namespace dcp {

class RankInputs {
 public:
  RankInputs(Runtime& runtime, const Scenario& scenario, const StepPlan& plan,
             const Capacity& capacity, int rank);

  // What a ubatch reads whose first row is `first_row` of the step. `query`: a copy of `q` to read
  // instead.
  StepInputs view(int ubatch, std::int64_t first_row, const std::byte* query = nullptr) const;

  const BufferSet& buffers() const { return buffers_; }
  const BufferSet& metadata(int ubatch) const { return metadata_.at(ubatch).buffers(); }

  // What the next batches are loaded into, and the next steps read, under a buffer's name; with
  // `ubatch` among its metadata.
  void rebind(const std::string& name, const Buffer& buffer);
  void rebind(const std::string& name, const Buffer& buffer, int ubatch) {
    metadata_.at(ubatch).rebind(name, buffer);
  }

  // The slot of every new token, and the page of every key, of the next batch that is loaded.
  void force_slots(std::int64_t slot) { forced_slot_ = slot; }
  void force_blocks(std::int32_t block) { forced_block_ = block; }

  // The next batch that is loaded leaves this metadata buffer as it is; or, of its tail alone, what
  // is there. std::invalid_argument where there is none of that name.
  void keep(const std::string& name, bool tail_only);

  // What the metadata buffers of a ubatch should hold of the batch.
  std::vector<MetadataValues> metadata_values(const BatchLayout& layout,
                                              const std::vector<Ubatch>& ubatches,
                                              std::size_t ubatch) const;

  // Writes each ubatch's part of the batch's metadata to the staging that suits the upload; then
  // enqueues its copies.
  void stage_metadata(const Upload& upload, const BatchLayout& layout,
                      const std::vector<Ubatch>& ubatches);
  void copy_metadata(Stream stream, Upload& upload) const { staging_.copy(stream, upload); }

  // Writes the batch's data: the keys of earlier tokens into the cache as earlier steps would have,
  // this step's keys and queries into the inputs.
  void load_data(Upload& upload, const InputData& data, const BatchLayout& layout,
                 const std::vector<Ubatch>& ubatches);

  // What attention leaves in empty rows from here on.
  void set_stub(Upload& upload, verb::StubMode mode);

 private:
  void bind();
  void allocate_metadata();
  void load_cache(Upload& upload, const InputData& data, const BatchLayout& layout,
                  const RankBatch& batch);
  void load_new_tokens(Upload& upload, const InputData& data, const BatchLayout& layout);
  void load_given(Upload& upload, const BatchLayout& layout);
  void load_chunks(Upload& upload, const InputData& data, const BatchLayout& layout,
                   const std::vector<Ubatch>& ubatches);
  std::size_t chunk_bytes() const;  // of a layer of a ubatch

  Runtime& runtime_;
  const Scenario& scenario_;
  StepShape shape_;
  int num_input_heads_;
  Shard shard_;
  Capacity capacity_;
  BufferSet buffers_;
  std::optional<std::int64_t> forced_slot_;
  std::optional<std::int32_t> forced_block_;
  KeptMetadata kept_;
  StepInputs view_{};               // without metadata, from row 0
  std::vector<Metadata> metadata_;  // per ubatch
  MetadataStaging staging_;
  std::vector<std::int32_t> used_pages_;  // by the batch that was loaded last
};

}  // namespace dcp
