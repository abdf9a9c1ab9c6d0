// Input data of a scenario, as a pure function of where an element stands: the same element has the
// same value whatever the world size, interleave, strategy, backend or padding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/scenario.hpp"

namespace dcp {

// Which token's row of a prefix chunk; `owner`: the rank that holds it.
struct ChunkRow {
  int layer;
  int request;
  std::int64_t token;  // global
  int owner;
};

class InputData {
 public:
  explicit InputData(const Scenario& scenario);

  // Query of global position `position` of `request` for `head` of the group at layer 0: [Dq],
  // rounded to the scenario's dtype. random: standard normal; mean and given: 0.
  void query(int request, std::int64_t position, int head, std::span<float> out) const;

  // Key and value of global token `token`, rounded to the scenario's dtype: Scenario::kv_row_dim()
  // elements. random: MLA a standard normal key, GQA a standard normal key and value for each KV
  // head of the group. `owner` is the rank that holds the token; data of kind mean is owner + 1 in
  // every element. A cache of another dtype rounds once more.
  void kv_row(int layer, int request, std::int64_t token, int owner, std::span<float> out) const;

  // What kv_gather moves of a token, rounded to `dtype`. random: standard normal; else owner + 1.
  void chunk_row(const ChunkRow& row, DType dtype, std::span<float> out) const;

 private:
  DataKind kind_;
  std::uint64_t seed_;
  DType dtype_;
  std::size_t head_dim_;  // GQA: elements of a key or value; MLA: 0, a row is one key
  int num_kv_heads_;
};

}  // namespace dcp
