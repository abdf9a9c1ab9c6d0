#include "reference/request_kv.hpp"

namespace dcp {

RequestKv::RequestKv(const StepGeometry& geometry)
    : geometry_(geometry),
      keys_(static_cast<std::size_t>(geometry.num_kv_heads()),
            Eigen::MatrixXf(geometry.qk_head_dim(), 0)) {}

// A token's row is [keys of all KV heads, values of all KV heads]; MLA has one key and no value.
RequestKv::RequestKv(const StepGeometry& geometry, const InputData& data, int layer,
                     std::size_t request)
    : geometry_(geometry) {
  const std::vector<int>& owners = geometry.owners(request);
  const auto length = static_cast<Eigen::Index>(owners.size());
  const auto num_kv_heads = static_cast<std::size_t>(geometry.num_kv_heads());
  const Eigen::Index key_dim = geometry.qk_head_dim();
  keys_.assign(num_kv_heads, Eigen::MatrixXf(key_dim, length));
  if (!geometry.value_is_in_key()) {
    values_.assign(num_kv_heads, Eigen::MatrixXf(geometry.v_head_dim(), length));
  }
  const Eigen::Index vectors = static_cast<Eigen::Index>(keys_.size() + values_.size());
  Eigen::MatrixXf row(key_dim, vectors);
  for (Eigen::Index token = 0; token < length; ++token) {
    data.kv_row(layer, static_cast<int>(request), token, owners[static_cast<std::size_t>(token)],
                {row.data(), static_cast<std::size_t>(row.size())});
    const DType kv_dtype = geometry.kv_dtype(request, token);
    if (kv_dtype != geometry.dtype()) {
      round_to(kv_dtype, {row.data(), static_cast<std::size_t>(row.size())});
    }
    for (std::size_t head = 0; head < num_kv_heads; ++head) {
      const auto key = static_cast<Eigen::Index>(head);
      keys_[head].col(token) = row.col(key);
      if (!values_.empty()) {
        values_[head].col(token) = row.col(key + static_cast<Eigen::Index>(num_kv_heads));
      }
    }
  }
}

Eigen::MatrixXd RequestKv::scores(const Eigen::Ref<const Eigen::MatrixXf>& query,
                                  Eigen::Index num_keys) const {
  const Eigen::Index heads = heads_per_kv_head();
  Eigen::MatrixXd all(num_keys, query.cols());
  for (std::size_t kv_head = 0; kv_head < keys_.size(); ++kv_head) {
    const Eigen::Index first = static_cast<Eigen::Index>(kv_head) * heads;
    all.middleCols(first, heads) =
        attention_scores(query.middleCols(first, heads), keys_[kv_head].leftCols(num_keys),
                         geometry_.softmax_scale());
  }
  return all;
}

AttentionState RequestKv::attend(const Eigen::MatrixXd& scores,
                                 std::span<const Eigen::Index> tokens) const {
  const Eigen::Index heads = heads_per_kv_head();
  const Eigen::Index head_dim = geometry_.v_head_dim();
  AttentionState all{.out = Eigen::MatrixXd(head_dim, scores.cols()),
                     .magnitude = Eigen::MatrixXd(head_dim, scores.cols()),
                     .lse = Eigen::VectorXd(scores.cols())};
  for (std::size_t kv_head = 0; kv_head < keys_.size(); ++kv_head) {
    const Eigen::Index first = static_cast<Eigen::Index>(kv_head) * heads;
    const AttentionState state = dcp::attend(scores.middleCols(first, heads), values(kv_head),
                                             head_dim, tokens, geometry_.lse().base);
    all.out.middleCols(first, heads) = state.out;
    all.magnitude.middleCols(first, heads) = state.magnitude;
    all.lse.segment(first, heads) = state.lse;
  }
  return all;
}

}  // namespace dcp
