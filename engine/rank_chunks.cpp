// The rows of a rank's prefix chunk, which kv_gather moves.
#include <algorithm>

#include "core/poison.hpp"
#include "engine/rank_inputs.hpp"

namespace dcp {

namespace {

bool has_rows_in(const BatchLayout& layout, std::int64_t request, const Ubatch& ubatch) {
  const std::int64_t first = layout.query_start_loc[request];
  const std::int64_t end = layout.query_start_loc[request + 1];
  return std::max(first, ubatch.first_row) < std::min(end, ubatch.first_row + ubatch.num_rows);
}

}  // namespace

std::size_t RankInputs::chunk_bytes() const {
  const KvGatherSpec& gather = shape_.kv_gather;
  return static_cast<std::size_t>(gather.tokens / shape_.world_size * gather.dim) *
         size_bytes(gather.dtype);
}

// The first rows, as many as there is room for, of the rank's tokens before the step's new ones:
// request after request of those that have a row in the ubatch. Where there are fewer, the rest is
// poison, which is moved as it is.
void RankInputs::load_chunks(Upload& upload, const InputData& data, const BatchLayout& layout,
                             const std::vector<Ubatch>& ubatches) {
  const KvGatherSpec& gather = shape_.kv_gather;
  std::vector<float> values(static_cast<std::size_t>(gather.dim));
  std::vector<std::byte> chunk(chunk_bytes());
  auto* to = buffers_.at<std::byte>("kv_chunk");
  for (const Ubatch& ubatch : ubatches) {
    for (int layer = 0; layer < shape_.layers; ++layer, to += chunk.size()) {
      poison(chunk.data(), chunk.size());
      std::size_t element = 0;
      const std::size_t room = chunk.size() / size_bytes(gather.dtype);
      for (std::int64_t r = 0; r < layout.num_requests(); ++r) {
        if (!has_rows_in(layout, r, ubatch)) continue;
        const std::int64_t context =
            std::max<std::int64_t>(0, layout.seq_lens[r] - layout.query_len(r));
        for (const LocalKey& local : local_keys(layout, shard_, r, 0, context)) {
          if (element == room) break;
          data.chunk_row({layer, static_cast<int>(r), local.token, shard_.rank}, gather.dtype,
                         values);
          for (const float value : values) {
            store_element(chunk.data(), gather.dtype, element++, value);
          }
        }
      }
      upload.write(to, chunk.data(), chunk.size());
    }
  }
}

}  // namespace dcp
