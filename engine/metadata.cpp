#include "engine/metadata.hpp"

#include <algorithm>

#include "kernels/empty_ranks.hpp"

namespace dcp {

namespace {

// Arrays of the metadata, one after the other in host memory as on the device; those whose buffers
// follow each other there go up in one copy.
class StagingWriter {
 public:
  explicit StagingWriter(std::byte* staging) : staging_(staging) {}

  // `values`, then `tail` up to `size` elements of the buffer.
  template <class T>
  void add(const Buffer& target, const std::vector<T>& values, T tail, std::int64_t size) {
    auto* to = reinterpret_cast<T*>(staging_ + used_);
    std::copy(values.begin(), values.end(), to);
    std::fill(to + values.size(), to + size, tail);
    const std::size_t size_bytes = static_cast<std::size_t>(size) * sizeof(T);
    const bool follows = !copies_.empty() && copies_.back().is_whole &&
                         copies_.back().to + (used_ - copies_.back().offset) == target.data;
    if (!follows) copies_.push_back({.to = target.data, .offset = used_});
    copies_.back().size_bytes = used_ + size_bytes - copies_.back().offset;
    copies_.back().is_whole = size_bytes == target.size_bytes;
    used_ += aligned_part(size_bytes);
  }

  void write_all(Upload& upload) const {
    for (const Copy& copy : copies_) upload.write(copy.to, staging_ + copy.offset, copy.size_bytes);
  }

  void copy_all(Runtime& runtime, Stream stream) const {
    for (const Copy& copy : copies_) {
      runtime.copy(stream, copy.to, staging_ + copy.offset, copy.size_bytes);
    }
  }

 private:
  struct Copy {
    std::byte* to;
    std::size_t offset;
    std::size_t size_bytes = 0;
    bool is_whole = true;  // fills its last buffer: what follows that may be filled with it
  };

  std::byte* staging_;
  std::vector<Copy> copies_;
  std::size_t used_ = 0;
};

std::vector<std::int32_t> flat_block_table(const RankBatch& batch, std::int64_t stride) {
  std::vector<std::int32_t> flat(batch.block_table.size() * static_cast<std::size_t>(stride), 0);
  for (std::size_t r = 0; r < batch.block_table.size(); ++r) {
    std::copy(batch.block_table[r].begin(), batch.block_table[r].end(),
              flat.begin() + static_cast<std::ptrdiff_t>(r * static_cast<std::size_t>(stride)));
  }
  return flat;
}

}  // namespace

Metadata::Metadata(Runtime& runtime, const MetadataCapacity& capacity)
    : runtime_(runtime), capacity_(capacity) {
  std::vector<BufferRequest> parts;
  for (const InputSpec& spec : metadata_specs(capacity)) {
    parts.push_back({spec.name, spec.size_bytes()});
    staging_bytes_ += aligned_part(spec.size_bytes());
  }
  const std::vector<Buffer> buffers = runtime_.allocate_together(parts);
  for (std::size_t i = 0; i < parts.size(); ++i) buffers_.add(parts[i].name, buffers[i]);
}

// Made at its first use: a plan loads nothing.
std::byte* Metadata::next_staging() {
  Buffer& staging = staging_[next_staging_];
  if (staging.data == nullptr) {
    staging = runtime_.allocate_pinned("metadata_staging", staging_bytes_);
  }
  next_staging_ = 1 - next_staging_;
  return staging.data;
}

// Calls visit(name, values, tail, capacity) for each buffer.
template <class Visit>
void Metadata::each_array(const RankBatch& batch, const Visit& visit) const {
  const std::int64_t rows = capacity_.rows;
  const std::int64_t stride = capacity_.pages_per_request;
  visit("query_start_loc", batch.query_start_loc, batch.query_start_loc.back(), rows + 1);
  visit("seq_lens", batch.seq_lens, 0, rows);
  visit("causal_bounds", batch.causal_bounds, 0, rows);
  visit("empty_ranks", batch.empty_ranks, kEveryRank, rows);
  visit("block_table", flat_block_table(batch, stride), 0, rows * stride);
  visit("slot_mapping", batch.slot_mapping, -1, rows);
  if (!capacity_.new_tokens) return;
  visit("new_seq_lens", batch.new_seq_lens, 0, rows);
  visit("new_bounds", batch.new_bounds, 0, rows);
  visit("new_first_rows", batch.new_first_rows, 0, rows);
}

void Metadata::load(Stream stream, Upload& upload, const RankBatch& batch,
                    const KeptMetadata& kept) {
  // A staging may still be read by a load that is pending: then the upload brings its own.
  std::vector<std::byte> own(upload.stream() ? staging_bytes_ : 0);
  StagingWriter writer(upload.stream() ? own.data() : next_staging());
  each_array(batch, [&](std::string_view name, const auto& values, auto tail, std::int64_t size) {
    if (name == kept.whole) return;
    if (name == kept.tail) size = static_cast<std::int64_t>(values.size());
    using T = typename std::decay_t<decltype(values)>::value_type;
    writer.add<T>(*buffers_.find(name), values, tail, size);
  });
  if (upload.stream()) {
    writer.write_all(upload);
  } else {
    writer.copy_all(runtime_, stream);
  }
}

std::vector<MetadataValues> Metadata::values(const RankBatch& batch) const {
  std::vector<MetadataValues> all;
  each_array(batch, [&](std::string_view name, const auto& values, auto tail, std::int64_t size) {
    MetadataValues& array = all.emplace_back();
    array.name = name;
    array.values.assign(values.begin(), values.end());
    array.batch_size = values.size();
    array.values.resize(static_cast<std::size_t>(size), tail);
  });
  return all;
}

void Metadata::set_view(StepInputs& view) const {
  view.batch = {.query_start_loc = buffers_.at<std::int32_t>("query_start_loc"),
                .seq_lens = buffers_.at<std::int32_t>("seq_lens"),
                .causal_bounds = buffers_.at<std::int32_t>("causal_bounds"),
                .num_requests = static_cast<std::int32_t>(capacity_.rows)};
  view.empty_ranks = buffers_.at<std::uint64_t>("empty_ranks");
  view.block_table = buffers_.at<std::int32_t>("block_table");
  view.block_table_stride = static_cast<std::int32_t>(capacity_.pages_per_request);
  view.slot_mapping = buffers_.at<std::int64_t>("slot_mapping");
  if (!capacity_.new_tokens) return;
  view.new_batch = view.batch;
  view.new_batch.seq_lens = buffers_.at<std::int32_t>("new_seq_lens");
  view.new_batch.causal_bounds = buffers_.at<std::int32_t>("new_bounds");
  view.new_first_rows = buffers_.at<std::int32_t>("new_first_rows");
}

}  // namespace dcp
