#include "reference/attention_check.hpp"

#include <algorithm>
#include <atomic>
#include <future>
#include <limits>
#include <numeric>

#include "reference/attention.hpp"
#include "reference/combine_check.hpp"

namespace dcp {

namespace {

constexpr double kEmpty = -std::numeric_limits<double>::infinity();

// The partial that a rank should have of one row, and how far its own may be off.
struct RightPartial {
  AttentionState state;
  Eigen::MatrixXd out_tolerance;  // [D, H]
  Eigen::VectorXd lse_tolerance;  // [H]
};

// Writes disjoint rows of one result from several threads, and each thread's own comparisons.
class RowChecker {
 public:
  RowChecker(const StepGeometry& geometry, const LayerObservation& observation,
             const CheckOptions& options, LayerResult& expected)
      : geometry_(geometry), observation_(observation), options_(options), expected_(expected) {}

  // `keys` [Dq, L] of the row's request.
  void check_row(const Eigen::MatrixXf& keys, std::int64_t row);

  Comparison partial;
  Comparison step;

 private:
  RightPartial right_partial(AttentionState state) const;
  void check_partial(const RightPartial& right, std::int64_t row, int rank);
  WantedRow wanted_step(const AttentionState& whole, const std::vector<RightPartial>& partials,
                        int head) const;

  const StepGeometry& geometry_;
  const LayerObservation& observation_;
  const CheckOptions& options_;
  LayerResult& expected_;
};

void RowChecker::check_row(const Eigen::MatrixXf& keys, std::int64_t row) {
  const Eigen::Index num_keys = geometry_.row(row).num_keys;
  const Eigen::Map<const Eigen::MatrixXf> query(
      observation_.query.data() +
          geometry_.index(row, 0) * static_cast<std::size_t>(geometry_.qk_head_dim()),
      geometry_.qk_head_dim(), geometry_.num_heads());
  const Eigen::MatrixXd scores =
      attention_scores(query, keys.leftCols(num_keys), geometry_.softmax_scale());
  const LseBase base = geometry_.lse().base;

  std::vector<RightPartial> partials;
  for (int rank = 0; rank < geometry_.world_size(); ++rank) {
    partials.push_back(right_partial(
        attend(scores, keys, geometry_.v_head_dim(), geometry_.visible_tokens(row, rank), base)));
    if (options_.partial) check_partial(partials.back(), row, rank);
  }

  std::vector<Eigen::Index> all_tokens(static_cast<std::size_t>(num_keys));
  std::iota(all_tokens.begin(), all_tokens.end(), Eigen::Index{0});
  const AttentionState whole = attend(scores, keys, geometry_.v_head_dim(), all_tokens, base);
  for (int head = 0; head < geometry_.num_heads(); ++head) {
    const WantedRow want = wanted_step(whole, partials, head);
    if (options_.step) {
      compare_outputs(step, {.layer = observation_.layer, .row = row, .head = head}, observation_,
                      want, geometry_.dtype());
    }
    const std::size_t index = geometry_.index(row, head);
    expected_.lse[index] = want.lse;
    expected_.lse_tolerance[index] = want.lse_tolerance;
    std::copy(want.out.begin(), want.out.end(),
              expected_.out.begin() + static_cast<std::ptrdiff_t>(index) * geometry_.v_head_dim());
    std::copy(want.out_tolerance.begin(), want.out_tolerance.end(),
              expected_.out_tolerance.begin() +
                  static_cast<std::ptrdiff_t>(index) * geometry_.v_head_dim());
  }
}

RightPartial RowChecker::right_partial(AttentionState state) const {
  const double error = probability_error(options_.probability_dtype);
  RightPartial right{.state = std::move(state), .out_tolerance = {}, .lse_tolerance = {}};
  right.out_tolerance =
      right.state.out.binaryExpr(right.state.magnitude, [&](double out, double magnitude) {
        return partial_out_tolerance(geometry_.dtype(), out, error, magnitude);
      });
  right.lse_tolerance = right.state.lse.unaryExpr(
      [&](double lse) { return partial_lse_tolerance(geometry_.lse().dtype, lse); });
  return right;
}

void RowChecker::check_partial(const RightPartial& right, std::int64_t row, int rank) {
  const RankObservation& observed = observation_.ranks[static_cast<std::size_t>(rank)];
  const auto head_dim = static_cast<std::size_t>(geometry_.v_head_dim());
  const bool empty = geometry_.visible_tokens(row, rank).empty();
  if (empty && !options_.partial_empty_rows) return;
  for (int head = 0; head < geometry_.num_heads(); ++head) {
    const ElementPlace at{
        .layer = observation_.layer, .rank = rank, .row = row, .head = head, .element = -1};
    const std::size_t index = geometry_.index(row, head);
    const WantedRow want{.out = right.state.out.col(head),
                         .out_tolerance = right.out_tolerance.col(head),
                         .lse = right.state.lse[head],
                         .lse_tolerance = right.lse_tolerance[head]};
    partial.add(at, observed.partial_lse[index], want.lse, want.lse_tolerance);
    if (empty) continue;  // its out may hold anything
    compare_elements(partial, at, observed.partial_out.subspan(index * head_dim, head_dim), want,
                     geometry_.dtype());
  }
}

// The tolerances of combine and partials together, to first order. With the weights w_r / s, the
// lse may be off by the combine's and the weighted sum of the partials' tolerances; out too, and by
// sum of w_r / s * (lse tolerance)_r * (|out_r| + |out|) for the weights: at most
// 2 * (lse tolerance) * S.
WantedRow RowChecker::wanted_step(const AttentionState& whole,
                                  const std::vector<RightPartial>& partials, int head) const {
  Eigen::ArrayXd lse(geometry_.world_size());
  Eigen::ArrayXXd outs(geometry_.v_head_dim(), geometry_.world_size());
  for (Eigen::Index rank = 0; rank < lse.size(); ++rank) {
    const AttentionState& state = partials[static_cast<std::size_t>(rank)].state;
    lse[rank] = state.lse[head];
    outs.col(rank) = state.out.col(head);
  }
  CombinedRow combined = combine(lse, outs, geometry_.lse().base);
  // The values come from the unsharded pass: a key that no rank owns is missing in the shards only.
  combined.out = whole.out.col(head);
  combined.lse = whole.lse[head];
  WantedRow want = wanted_row(combined, geometry_.tolerance());
  for (Eigen::Index rank = 0; rank < lse.size(); ++rank) {
    const double weight = combined.weights[rank];
    if (weight == 0) continue;
    const RightPartial& right = partials[static_cast<std::size_t>(rank)];
    const double lse_tolerance = weight * right.lse_tolerance[head];
    want.out_tolerance += weight * right.out_tolerance.col(head).array() +
                          lse_tolerance * (outs.col(rank).abs() + combined.out.abs());
    want.lse_tolerance += lse_tolerance;
  }
  return want;
}

Eigen::MatrixXf load_keys(const StepGeometry& geometry, const InputData& data, int layer,
                          std::size_t request) {
  const std::vector<int>& owners = geometry.owners(request);
  Eigen::MatrixXf keys(geometry.qk_head_dim(), static_cast<Eigen::Index>(owners.size()));
  for (std::size_t token = 0; token < owners.size(); ++token) {
    const auto t = static_cast<Eigen::Index>(token);
    data.key(layer, static_cast<int>(request), t, owners[token],
             {keys.col(t).data(), static_cast<std::size_t>(keys.rows())});
  }
  return keys;
}

// Rows of no request: they have no keys, on any rank.
void check_padding(const StepGeometry& geometry, RowChecker& checker) {
  const Eigen::MatrixXf no_keys(geometry.qk_head_dim(), 0);
  for (std::int64_t row = 0; row < geometry.num_rows(); ++row) {
    if (geometry.row(row).request < 0) checker.check_row(no_keys, row);
  }
}

}  // namespace

void check_attention(const StepGeometry& geometry, const InputData& data,
                     const LayerObservation& observation, const CheckOptions& options,
                     LayerCheck& check) {
  const std::size_t num_results = geometry.index(geometry.num_rows(), 0);
  check.expected.lse.assign(num_results, kEmpty);
  check.expected.out.assign(num_results * static_cast<std::size_t>(geometry.v_head_dim()), 0.0);
  check.expected.lse_tolerance.assign(check.expected.lse.size(), 0.0);
  check.expected.out_tolerance.assign(check.expected.out.size(), 0.0);

  std::atomic<std::size_t> next_request{0};
  const auto work = [&] {
    RowChecker checker(geometry, observation, options, check.expected);
    for (std::size_t r = next_request++; r < geometry.num_requests(); r = next_request++) {
      const Eigen::MatrixXf keys = load_keys(geometry, data, observation.layer, r);
      for (std::int64_t row = 0; row < geometry.num_rows(); ++row) {
        if (geometry.row(row).request == static_cast<int>(r)) checker.check_row(keys, row);
      }
    }
    return checker;
  };
  const auto take = [&](const RowChecker& checker) {
    check.partial.merge(checker.partial);
    check.step.merge(checker.step);
  };
  std::future<RowChecker> other;
  if (geometry.num_requests() > 1) other = std::async(std::launch::async, work);
  take(work());
  RowChecker padding(geometry, observation, options, check.expected);
  check_padding(geometry, padding);
  take(padding);
  if (other.valid()) take(other.get());
}

}  // namespace dcp
