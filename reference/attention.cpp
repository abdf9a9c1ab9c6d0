#include "reference/attention.hpp"

#include <algorithm>
#include <limits>

#include "reference/combine.hpp"

namespace dcp {

namespace {

// Keys that are widened to float64 at a time: keeps the copy near the caches, whatever the length.
constexpr Eigen::Index kChunk = 1024;

}  // namespace

Eigen::MatrixXd attention_scores(const Eigen::Ref<const Eigen::MatrixXf>& query,
                                 const Eigen::Ref<const Eigen::MatrixXf>& keys,
                                 double softmax_scale) {
  const Eigen::MatrixXd scaled = query.cast<double>() * softmax_scale;
  Eigen::MatrixXd scores(keys.cols(), query.cols());
  for (Eigen::Index first = 0; first < keys.cols(); first += kChunk) {
    const Eigen::Index count = std::min(kChunk, keys.cols() - first);
    const Eigen::MatrixXd chunk = keys.middleCols(first, count).cast<double>();
    scores.middleRows(first, count).noalias() = chunk.transpose() * scaled;
  }
  return scores;
}

AttentionState attend(const Eigen::MatrixXd& scores, const Eigen::MatrixXf& values,
                      Eigen::Index head_dim, std::span<const Eigen::Index> tokens, LseBase base) {
  const Eigen::Index num_heads = scores.cols();
  AttentionState state{
      .out = Eigen::MatrixXd::Zero(head_dim, num_heads),
      .magnitude = Eigen::MatrixXd::Zero(head_dim, num_heads),
      .lse = Eigen::VectorXd::Constant(num_heads, -std::numeric_limits<double>::infinity())};
  if (tokens.empty()) return state;

  Eigen::MatrixXd probabilities = scores(tokens, Eigen::all);  // [tokens, H], not yet normalised
  const Eigen::RowVectorXd max = probabilities.colwise().maxCoeff();
  probabilities = (probabilities.rowwise() - max).array().exp();
  const Eigen::RowVectorXd sum = probabilities.colwise().sum();
  state.lse = (max.array() + sum.array().log()).transpose() / log_of(base);

  const auto num_tokens = static_cast<Eigen::Index>(tokens.size());
  for (Eigen::Index first = 0; first < num_tokens; first += kChunk) {
    const Eigen::Index count = std::min(kChunk, num_tokens - first);
    const auto chunk =
        tokens.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    const Eigen::MatrixXd v = values(Eigen::seqN(0, head_dim), chunk).cast<double>();  // [D, count]
    const Eigen::MatrixXd v_magnitude = v.cwiseAbs();
    state.out.noalias() += v * probabilities.middleRows(first, count);
    state.magnitude.noalias() += v_magnitude * probabilities.middleRows(first, count);
  }
  state.out.array().rowwise() /= sum.array();
  state.magnitude.array().rowwise() /= sum.array();
  return state;
}

}  // namespace dcp
