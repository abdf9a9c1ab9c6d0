// Float64 attention of all heads of one query over a chosen set of keys of its request.
#pragma once

#include <Eigen/Core>
#include <span>

#include "core/lse.hpp"

namespace dcp {

struct AttentionState {
  Eigen::MatrixXd out;        // [D, H]; 0 without keys
  Eigen::MatrixXd magnitude;  // [D, H] P = sum of probability * |v|
  Eigen::VectorXd lse;        // [H] in the asked base; -inf without keys
};

// softmax_scale * <q, k> for all keys and heads: query [Dq, H], keys [Dq, L] -> [L, H].
Eigen::MatrixXd attention_scores(const Eigen::Ref<const Eigen::MatrixXf>& query,
                                 const Eigen::Ref<const Eigen::MatrixXf>& keys,
                                 double softmax_scale);

// Softmax of `scores` [L, H] over `tokens` (indices into 0..L-1, in any order), applied to the
// values: the columns of `values` [at least D, L], first `head_dim` rows.
AttentionState attend(const Eigen::MatrixXd& scores, const Eigen::MatrixXf& values,
                      Eigen::Index head_dim, std::span<const Eigen::Index> tokens, LseBase base);

}  // namespace dcp
