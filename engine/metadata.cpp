#include "engine/metadata.hpp"

#include <algorithm>

#include "kernels/empty_ranks.hpp"

namespace dcp {

namespace {

std::vector<std::int32_t> flat_block_table(const RankBatch& batch, std::int64_t stride) {
  std::vector<std::int32_t> flat(batch.block_table.size() * static_cast<std::size_t>(stride), 0);
  for (std::size_t r = 0; r < batch.block_table.size(); ++r) {
    std::copy(batch.block_table[r].begin(), batch.block_table[r].end(),
              flat.begin() + static_cast<std::ptrdiff_t>(r * static_cast<std::size_t>(stride)));
  }
  return flat;
}

}  // namespace

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

void Metadata::stage(MetadataStaging& staging, const RankBatch& batch,
                     const KeptMetadata& kept) const {
  each_array(batch, [&](std::string_view name, const auto& values, auto tail, std::int64_t size) {
    if (name == kept.whole) return;
    if (name == kept.tail) size = static_cast<std::int64_t>(values.size());
    using T = typename std::decay_t<decltype(values)>::value_type;
    staging.add<T>(*buffers_.find(name), values, tail, size);
  });
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
