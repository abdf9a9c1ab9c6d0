// The combine of rows that lie in any order of ranks, by the lanes of one or several warps. The
// words of a row, of up to eight ranks, are loaded before anything else happens, also of ranks that
// turn out to have no weight: their words are not used.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/combine_row.hpp"
#include "kernels/cuda/rows.cuh"

namespace dcp {

inline constexpr int kGroup = 8;  // ranks whose words are in flight, and the group of sum_rank_rows

// Where rows come from and go to. Strides in bytes.
struct CombineRows {
  const char* payload;       // of the first rank
  const char* lses;          // fp32
  std::int64_t part;         // from a rank's payload to the next one's
  std::int64_t lse_part;     // from a rank's lses to the next one's
  std::int64_t payload_row;  // from a row's payload to the next one's
  std::int64_t lse_row;
  char* out;
  std::int64_t out_token;
  std::int64_t out_head;
  float* lse;  // [T, h], or null
  std::int64_t num_tokens;
  std::int32_t heads_per_rank;
  std::int32_t num_words;  // of a row
  std::int32_t world_size;
};

// A row of the result and the rows that it is made of, and the lanes that share them.
template <class Offset>
struct CombinedRow {
  const char* payload;  // of rank 0
  const char* first_lse;
  Offset part;
  Offset lse_part;
  std::uint32_t* out;
  int num_words;
  int lane;
  int num_lanes;

  __device__ CombinedRow(const CombineRows& rows, Offset token, int head)
      : part(static_cast<Offset>(rows.part)),
        lse_part(static_cast<Offset>(rows.lse_part)),
        num_words(rows.num_words),
        lane(static_cast<int>(threadIdx.x)),
        num_lanes(static_cast<int>(blockDim.x)) {
    const auto at = [](auto index, std::int64_t stride) {
      return static_cast<Offset>(index) * static_cast<Offset>(stride);
    };
    const Offset row = at(token, rows.heads_per_rank) + head;
    payload = rows.payload + at(row, rows.payload_row);
    first_lse = rows.lses + at(row, rows.lse_row);
    out = reinterpret_cast<std::uint32_t*>(rows.out + at(token, rows.out_token) +
                                           at(head, rows.out_head));
  }

  __device__ const std::uint32_t* words(int rank) const {
    return reinterpret_cast<const std::uint32_t*>(payload + static_cast<Offset>(rank) * part);
  }
  __device__ float lse(int rank) const {
    const char* at = first_lse + static_cast<Offset>(rank) * lse_part;
    return std::bit_cast<float>(*reinterpret_cast<const std::uint32_t*>(at));
  }
};

// The words of a row that a lane works on: kWords of them, a row of lanes apart.
template <int kCount>
struct SpreadWords {
  static constexpr int kWords = kCount;
  template <class Row>
  __device__ static void load(const Row& row, int rank, bool is_rank,
                              std::uint32_t (&words)[kWords]) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const int index = row.lane + w * row.num_lanes;
      words[w] = is_rank && index < row.num_words ? row.words(rank)[index] : 0u;
    }
  }
  template <class Row>
  __device__ static void store(const Row& row, const std::uint32_t (&words)[kWords]) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const int index = row.lane + w * row.num_lanes;
      if (index < row.num_words) row.out[index] = words[w];
    }
  }
};

// Four in a row, moved as one vector: rows are aligned, and made of whole vectors.
struct VectorWords {
  static constexpr int kWords = 4;
  template <class Row>
  __device__ static void load(const Row& row, int rank, bool is_rank,
                              std::uint32_t (&words)[kWords]) {
    uint4 vector{};
    if (is_rank && row.lane * kWords < row.num_words) {
      vector = reinterpret_cast<const uint4*>(row.words(rank))[row.lane];
    }
    words[0] = vector.x;
    words[1] = vector.y;
    words[2] = vector.z;
    words[3] = vector.w;
  }
  template <class Row>
  __device__ static void store(const Row& row, const std::uint32_t (&words)[kWords]) {
    if (row.lane * kWords >= row.num_words) return;
    reinterpret_cast<uint4*>(row.out)[row.lane] = {words[0], words[1], words[2], words[3]};
  }
};

// Up to kMaxRanks ranks, which are one group. Each lane has some words of the row, all of them in
// flight. Starting from -0, which adding anything forgets, gives the bits of sum_rank_rows.
template <LseBase kBase, class T, class Words, int kMaxRanks = kGroup, class Row>
__device__ LseSum combine_group(const Row& row, int world_size) {
  constexpr int kWords = Words::kWords;
  using RankTeam = LaneTeam<kGroup>;  // lane i looks after the lse of rank i
  constexpr int kElements = Word<T>::kElements;
  std::uint32_t words[kMaxRanks][kWords];
#pragma unroll
  for (int rank = 0; rank < kMaxRanks; ++rank) {
    Words::load(row, rank, rank < world_size, words[rank]);
  }
  const int own_rank = RankTeam::lane();
  const float own_lse =
      own_rank < world_size ? row.lse(own_rank) : -std::numeric_limits<float>::infinity();
  const LseSum total = sum_lses<kBase, RankTeam>(kGroup, [&](int) { return own_lse; });
  const float own_factor = rank_factor<kBase>(own_lse, total);
  float sums[kWords][kElements];
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) sums[w][i] = total.sum > 0.0f ? -0.0f : 0.0f;
  }
#pragma unroll
  for (int rank = 0; rank < kMaxRanks; ++rank) {
    const float factor = __shfl_sync(~0u, own_factor, rank);
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      float values[kElements];
      Word<T>::unpack(words[rank][w], values);
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        if (factor != 0.0f) sums[w][i] += factor * values[i];
      }
    }
  }
  std::uint32_t result[kWords];
#pragma unroll
  for (int w = 0; w < kWords; ++w) result[w] = Word<T>::pack(sums[w]);
  Words::store(row, result);
  return total;
}

// Any number of ranks, eight that have a factor at a time, as in sum_rank_rows.
template <LseBase kBase, class T, class Row>
__device__ LseSum combine_groups(const Row& row, int world_size, float* factors) {
  constexpr int kElements = Word<T>::kElements;
  const LseSum total = rank_factors<kBase, WarpTeam>(
      world_size, [&](int rank) { return row.lse(rank); }, factors);
  for (int index = row.lane; index < row.num_words; index += row.num_lanes) {
    float sums[kElements] = {};
    float group[kElements] = {};
    int num_added = 0;
    for (int first = 0; first < world_size; first += kGroup) {
      std::uint32_t words[kGroup];
#pragma unroll
      for (int j = 0; j < kGroup; ++j) {
        const bool is_wanted = first + j < world_size && factors[first + j] != 0.0f;
        words[j] = is_wanted ? row.words(first + j)[index] : 0u;
      }
#pragma unroll
      for (int j = 0; j < kGroup; ++j) {
        const float factor = first + j < world_size ? factors[first + j] : 0.0f;
        if (factor == 0.0f) continue;
        float values[kElements];
        Word<T>::unpack(words[j], values);
        const bool starts_group = num_added++ % kGroup == 0;
#pragma unroll
        for (int i = 0; i < kElements; ++i) {
          const float term = factor * values[i];
          if (starts_group) sums[i] += group[i];
          group[i] = starts_group ? term : group[i] + term;
        }
      }
    }
    if (num_added > kGroup) {
#pragma unroll
      for (int i = 0; i < kElements; ++i) group[i] = sums[i] + group[i];
    }
    row.out[index] = Word<T>::pack(group);
  }
  return total;
}

// Of the row, once: its lse, where that is wanted.
template <LseBase kBase, class Offset>
__device__ void store_lse(const CombineRows& rows, const CombinedRow<Offset>& row, Offset token,
                          int head, const LseSum& total) {
  if (rows.lse == nullptr || row.lane > 0) return;
  rows.lse[token * rows.heads_per_rank + head] = combined_lse<kBase>(total);
}

}  // namespace dcp
