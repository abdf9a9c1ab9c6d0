// The metadata of one ubatch on one rank: buffers of fixed capacity at fixed addresses.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/batch_layout.hpp"
#include "engine/input_specs.hpp"
#include "engine/metadata_staging.hpp"
#include "engine/step_inputs.hpp"
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
  // `buffers` are those of metadata_specs().
  Metadata(const MetadataCapacity& capacity, BufferSet buffers)
      : capacity_(capacity), buffers_(std::move(buffers)) {}

  // Adds the batch's arrays, tails reset: requests past the batch have no rows and no keys.
  void stage(MetadataStaging& staging, const RankBatch& batch, const KeptMetadata& kept) const;

  // What stage() adds for each buffer.
  std::vector<MetadataValues> values(const RankBatch& batch) const;

  // Fills in the fields of the view that are metadata.
  void set_view(StepInputs& view) const;

  const BufferSet& buffers() const { return buffers_; }
  void rebind(const std::string& name, const Buffer& buffer) { buffers_.add(name, buffer); }

 private:
  template <class Visit>
  void each_array(const RankBatch& batch, const Visit& visit) const;

  MetadataCapacity capacity_;
  BufferSet buffers_;
};

}  // namespace dcp
