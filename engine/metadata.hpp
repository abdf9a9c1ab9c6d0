// The metadata of one ubatch on one rank: buffers of fixed capacity at fixed addresses, and the
// pinned staging that a batch goes up from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/batch_layout.hpp"
#include "engine/input_specs.hpp"
#include "engine/step_inputs.hpp"
#include "engine/upload.hpp"
#include "runtime/runtime.hpp"
#include "strategies/buffers.hpp"

namespace dcp {

// What a load leaves as it is, on purpose: a buffer, the tail of a buffer.
struct KeptMetadata {
  std::string whole = {};
  std::string tail = {};
};

// One array of a batch's metadata as a buffer should hold it.
struct MetadataValues {
  std::string name;
  std::vector<std::int64_t> values;  // tail included
  std::size_t batch_size;            // entries before the tail
};

class Metadata {
 public:
  Metadata(Runtime& runtime, const MetadataCapacity& capacity);

  // Enqueues the copies of the batch into the buffers, tails reset: requests past the batch have no
  // rows and no keys. While nothing is pending two stagings are used in turn; else the upload's.
  void load(Stream stream, Upload& upload, const RankBatch& batch, const KeptMetadata& kept = {});

  // What load() puts into each buffer.
  std::vector<MetadataValues> values(const RankBatch& batch) const;

  // Fills in the fields of the view that are metadata.
  void set_view(StepInputs& view) const;

  const BufferSet& buffers() const { return buffers_; }
  void rebind(const std::string& name, const Buffer& buffer) { buffers_.add(name, buffer); }

 private:
  std::byte* next_staging();

  template <class Visit>
  void each_array(const RankBatch& batch, const Visit& visit) const;

  Runtime& runtime_;
  MetadataCapacity capacity_;
  BufferSet buffers_;
  std::size_t staging_bytes_ = 0;
  Buffer staging_[2];  // none before its first use
  int next_staging_ = 0;
};

}  // namespace dcp
