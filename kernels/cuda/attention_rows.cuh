// Partial attention on the GPU: one warp per row, head and split; lane i holds pairs i, i + 32, ...
// of the query, and of the sum over values. A tile of keys is scored, then its values are added:
// the arithmetic of attention_tile.hpp. Products are fused into sums, unlike on the host.
#pragma once

#include "kernels/attention_tile.hpp"
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/empty_row_mode.hpp"

namespace dcp {

inline constexpr int kHeadsPerBlock = 4;
inline constexpr int kMaxPairs = 9;  // per lane: vectors of up to 576 elements

// What the attention ops have in common; the fields mean what they mean in row_attention.hpp.
struct CudaAttentionRows {
  ConstHeadRows query;
  HeadRows out;
  HeadRows lse;
  BatchMetadata batch;
  const std::int32_t* empty_row_mode;
  std::int64_t num_tokens;
  std::int32_t num_heads;
  std::int32_t first_head;
  std::int32_t heads_per_kv_head;
  std::int32_t qk_head_dim;
  std::int32_t v_head_dim;
  std::int32_t num_splits;
  float softmax_scale;
  LseBase base;
};

// Lane i's pairs of a vector of `dim` elements, dim even.
struct Pairs {
  float2 at[kMaxPairs];
};

template <class T>
__device__ float2 load_pair(const T* vector, int pair) {
  struct alignas(2 * sizeof(T)) Two {
    T x, y;
  };
  const Two two = reinterpret_cast<const Two*>(vector)[pair];
  return {to_float(two.x), to_float(two.y)};
}

// Calls body(i, pair) for the pairs of this lane.
template <class Body>
__device__ void each_pair(int dim, const Body& body) {
#pragma unroll
  for (int i = 0; i < kMaxPairs; ++i) {
    if (i * kWarp >= dim / 2) break;
    const int pair = i * kWarp + WarpTeam::lane();
    if (pair < dim / 2) body(i, pair);
  }
}

template <class Kv>
__device__ float dot(const Pairs& query, const Kv* key, int dim) {
  float sum = 0.0f;
  each_pair(dim, [&](int i, int pair) {
    const float2 k = load_pair(key, pair);
    sum = fmaf(query.at[i].x, k.x, sum);
    sum = fmaf(query.at[i].y, k.y, sum);
  });
  return WarpTeam::sum(sum);
}

struct RowResult {
  HeadRows out;
  HeadRows lse;
  std::int64_t row;
  int head;

  __device__ void store(int element, float value) const {
    store_value(out, out.strides.offset(row, head) + element * out.strides.element, value);
  }
  __device__ void store_lse(float value) const {
    if (WarpTeam::lane() == 0) store_value(lse, lse.strides.offset(row, head), value);
  }
};

__device__ inline void fill_empty_row(EmptyRowMode mode, const RowResult& result, int dim,
                                      bool is_padding) {
  const EmptyRow empty = empty_row(mode, is_padding);
  if (!empty.is_written) return;
  for (int i = WarpTeam::lane(); i < dim; i += kWarp) result.store(i, empty.out);
  result.store_lse(empty.lse);
}

// Attention over keys first_key .. end_key - 1, at least one. `offset_of(key)` is where the key
// starts, in elements from `keys`, negative where it is out of bounds and was reported;
// `values_at` is from a key to its value. `scores` [kTileKeys] is shared by the warp.
template <class Kv, class OffsetOf>
__device__ void attend(const CudaAttentionRows& rows, const Pairs& query, const Kv* keys,
                       std::int64_t values_at, std::int64_t first_key, std::int64_t end_key,
                       const OffsetOf& offset_of, float* scores, const RowResult& result) {
  constexpr int kKeysPerLane = kTileKeys / kWarp;
  OnlineSoftmax softmax;
  Pairs sums{};
  Pairs errors{};
  for (std::int64_t first = first_key; first < end_key; first += kTileKeys) {
    const int count = static_cast<int>(min(std::int64_t{kTileKeys}, end_key - first));
    std::int64_t offsets[kKeysPerLane];
#pragma unroll
    for (int i = 0; i < kKeysPerLane; ++i) {
      const int key = i * kWarp + WarpTeam::lane();
      offsets[i] = key < count ? offset_of(first + key) : 0;
    }
    const auto offset_of_key = [&](int key) {
      return __shfl_sync(~0u, key < kWarp ? offsets[0] : offsets[kKeysPerLane - 1], key % kWarp);
    };
    WarpTeam::sync();  // the last tile's weights have been read
#pragma unroll 2
    for (int key = 0; key < count; ++key) {
      const std::int64_t offset = offset_of_key(key);
      const float score = offset < 0 ? 0.0f : dot(query, keys + offset, rows.qk_head_dim);
      if (WarpTeam::lane() == 0) scores[key] = score;
    }
    WarpTeam::sync();
    const float shrink = softmax_tile<WarpTeam>(scores, count, rows.softmax_scale, softmax);
    Pairs tile{};
#pragma unroll 2
    for (int key = 0; key < count; ++key) {
      const std::int64_t offset = offset_of_key(key);
      if (offset < 0) continue;
      const float weight = scores[key];
      const Kv* value = keys + offset + values_at;
      each_pair(rows.v_head_dim, [&](int i, int pair) {
        const float2 v = load_pair(value, pair);
        tile.at[i].x = fmaf(weight, v.x, tile.at[i].x);
        tile.at[i].y = fmaf(weight, v.y, tile.at[i].y);
      });
    }
    each_pair(rows.v_head_dim, [&](int i, int) {
      shrink_and_add(sums.at[i].x, errors.at[i].x, shrink, tile.at[i].x);
      shrink_and_add(sums.at[i].y, errors.at[i].y, shrink, tile.at[i].y);
    });
  }
  each_pair(rows.v_head_dim, [&](int i, int pair) {
    result.store(2 * pair, sums.at[i].x / softmax.sum);
    result.store(2 * pair + 1, sums.at[i].y / softmax.sum);
  });
  result.store_lse(attention_lse(softmax, rows.base));
}

// One warp's share of the grid [num_tokens * num_splits, num_heads / kHeadsPerBlock].
// Queries are of type T, keys and values of type Kv; `offset_of(request, key, kv_head)` as above.
template <class T, class Kv, class OffsetOf>
__device__ void attend_row(const CudaAttentionRows& rows, const void* keys, std::int64_t values_at,
                           const OffsetOf& offset_of) {
  __shared__ float scores[kHeadsPerBlock][kTileKeys];
  let_successor_come();
  const int head = static_cast<int>(blockIdx.y * kHeadsPerBlock + threadIdx.y);
  if (head >= rows.num_heads) return;
  const std::int64_t out_row = blockIdx.x;
  const std::int64_t token = out_row % rows.num_tokens;
  const std::int64_t split = out_row / rows.num_tokens;
  const RowResult result{rows.out, rows.lse, out_row, head};
  const std::int32_t request = request_of_row(rows.batch, token);
  const std::int64_t num_keys = visible_keys(rows.batch, token);
  const std::int64_t first_key = num_keys * split / rows.num_splits;
  const std::int64_t end_key = num_keys * (split + 1) / rows.num_splits;
  if (first_key == end_key) {
    const auto mode = num_keys > 0 || rows.empty_row_mode == nullptr
                          ? EmptyRowMode::kExact
                          : static_cast<EmptyRowMode>(*rows.empty_row_mode);
    fill_empty_row(mode, result, rows.v_head_dim, request >= rows.batch.num_requests);
    return;
  }
  Pairs query{};
  const HeadStrides& strides = rows.query.strides;
  const T* from = static_cast<const T*>(rows.query.data) + strides.offset(token, head);
  each_pair(rows.qk_head_dim, [&](int i, int pair) {
    query.at[i] = {to_float(from[2 * pair * strides.element]),
                   to_float(from[(2 * pair + 1) * strides.element])};
  });
  const int kv_head = (rows.first_head + head) / rows.heads_per_kv_head;
  attend(
      rows, query, static_cast<const Kv*>(keys), values_at, first_key, end_key,
      [&](std::int64_t key) { return offset_of(request, key, kv_head); }, scores[threadIdx.y],
      result);
}

inline dim3 attention_grid(const CudaAttentionRows& rows) {
  return dim3(static_cast<unsigned>(rows.num_tokens * rows.num_splits),
              blocks_for(rows.num_heads, kHeadsPerBlock));
}
inline dim3 attention_block() { return dim3(kWarp, kHeadsPerBlock); }

// The row of the cache that holds a request's key; -1, and reported, where there is none.
struct CudaPagedCache {
  const std::int32_t* block_table;
  std::int64_t num_blocks;
  std::int32_t num_requests;
  std::int32_t block_table_stride;
  std::int32_t block_size;
  Fault* fault;

  __device__ std::int64_t row(std::int32_t request, std::int64_t key) const {
    const std::int64_t page = key / block_size;
    const std::int64_t entry = std::int64_t{request} * block_table_stride + page;
    if (entry >= std::int64_t{num_requests} * block_table_stride) {
      report(fault, FaultKind::kPagePastTable, request, key, page);
      return -1;
    }
    const std::int64_t block = block_table[entry];
    if (block < 0 || block >= num_blocks) {
      report(fault, FaultKind::kBlockOutsideCache, request, key, block, num_blocks);
      return -1;
    }
    return block * block_size + key % block_size;
  }
};

}  // namespace dcp
