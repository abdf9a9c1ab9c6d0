// A computing step as the reference sees it: which row belongs to which request, which keys it
// attends to on which rank, and how the strategy rounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/scenario.hpp"
#include "reference/ownership.hpp"
#include "reference/tolerance.hpp"

namespace dcp {

class StepGeometry {
 public:
  // As StepReference.
  StepGeometry(const Scenario& scenario, const Batch& batch, std::int64_t num_rows,
               std::string_view strategy);

  std::int64_t num_rows() const { return static_cast<std::int64_t>(rows_.size()); }
  std::size_t num_requests() const { return owners_.size(); }
  int num_heads() const { return num_heads_; }      // H
  int qk_head_dim() const { return qk_head_dim_; }  // Dq
  int v_head_dim() const { return v_head_dim_; }    // D
  int num_kv_heads() const { return num_kv_heads_; }
  bool value_is_in_key() const { return value_is_in_key_; }    // MLA: the key's first D elements
  bool splits_attention() const { return splits_attention_; }  // context, then new tokens
  int world_size() const { return tolerance_.world_size; }
  DType dtype() const { return tolerance_.dtype; }
  LseTag lse() const { return lse_; }
  double softmax_scale() const { return softmax_scale_; }

  // What attention reads a token's key and value as: what the cache holds or, of new tokens that
  // are attended to apart, what the step made.
  DType kv_dtype(std::size_t request, std::int64_t token) const {
    return splits_attention_ && token >= num_context_[request] ? dtype() : kv_dtype_;
  }

  const CombineTolerance& tolerance() const { return tolerance_; }  // of the strategy
  CombineTolerance merge_tolerance() const {  // of the merge with new tokens, on one rank
    return {.rounding = OutputRounding::kOnce, .world_size = 1, .dtype = tolerance_.dtype};
  }

  const RowKeys& row(std::int64_t row) const { return rows_[static_cast<std::size_t>(row)]; }

  // Rank of each token of a request. [L]
  const std::vector<int>& owners(std::size_t request) const { return owners_[request]; }

  // Global tokens that a row attends to on a rank, ascending: those of its context only where new
  // tokens are attended to apart; none for a padding row. The row is empty on that rank where this
  // is.
  std::span<const std::ptrdiff_t> visible_tokens(std::int64_t row, int rank) const;

  // Index of a row and head in a [T, H] tensor.
  std::size_t index(std::int64_t row, int head) const {
    return static_cast<std::size_t>(row * num_heads_ + head);
  }

 private:
  int num_heads_;
  int qk_head_dim_;
  int v_head_dim_;
  int num_kv_heads_;
  bool value_is_in_key_;
  bool splits_attention_;
  LseTag lse_;
  DType kv_dtype_;  // of the cache
  double softmax_scale_;
  CombineTolerance tolerance_;
  std::vector<RowKeys> rows_;                                     // [T]
  std::vector<std::int64_t> num_context_;                         // [R] tokens before the step's
  std::vector<std::vector<int>> owners_;                          // [R][L]
  std::vector<std::vector<std::vector<std::ptrdiff_t>>> tokens_;  // [R][N][local length]
};

}  // namespace dcp
