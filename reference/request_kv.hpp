// The keys and values of one request in one layer, over all ranks, and float64 attention over them.
#pragma once

#include <Eigen/Core>
#include <span>
#include <vector>

#include "core/data.hpp"
#include "reference/attention.hpp"
#include "reference/step_geometry.hpp"

namespace dcp {

class RequestKv {
 public:
  // Without keys: what a padding row attends to.
  explicit RequestKv(const StepGeometry& geometry);

  RequestKv(const StepGeometry& geometry, const InputData& data, int layer, std::size_t request);

  // Scaled scores [num_keys, H] of a query [Dq, H] with the first num_keys keys.
  Eigen::MatrixXd scores(const Eigen::Ref<const Eigen::MatrixXf>& query,
                         Eigen::Index num_keys) const;

  // Attention of all heads over some of the tokens that `scores` is of.
  AttentionState attend(const Eigen::MatrixXd& scores, std::span<const Eigen::Index> tokens) const;

 private:
  const Eigen::MatrixXf& values(std::size_t kv_head) const {
    return values_.empty() ? keys_[kv_head] : values_[kv_head];
  }
  Eigen::Index heads_per_kv_head() const {
    return geometry_.num_heads() / geometry_.num_kv_heads();
  }

  const StepGeometry& geometry_;
  std::vector<Eigen::MatrixXf> keys_;    // per KV head [Dq, L]
  std::vector<Eigen::MatrixXf> values_;  // per KV head [D, L]; none where they are in the keys
};

}  // namespace dcp
