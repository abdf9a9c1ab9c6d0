#include "reference/attention_check.hpp"

#include <algorithm>
#include <atomic>
#include <future>
#include <limits>
#include <numeric>
#include <thread>

#include "reference/attention.hpp"
#include "reference/combine_check.hpp"
#include "reference/request_kv.hpp"

namespace dcp {

namespace {

constexpr double kEmpty = -std::numeric_limits<double>::infinity();

// An attention state that one op should leave of one row, and how far its own may be off.
struct RightState {
  AttentionState state;
  Eigen::MatrixXd out_tolerance;  // [D, H]
  Eigen::VectorXd lse_tolerance;  // [H]

  WantedRow head(int head) const {
    return {.out = state.out.col(head),
            .out_tolerance = out_tolerance.col(head),
            .lse = state.lse[head],
            .lse_tolerance = lse_tolerance[head]};
  }
};

// What a row's attention should be, in the parts that a step computes it in.
struct RightRow {
  std::vector<RightState> partials;  // of each rank
  RightState new_tokens;             // where they are attended to apart
  AttentionState context;            // all keys before the new tokens, unsharded; only there
  AttentionState whole;              // all keys, unsharded
};

// Writes disjoint rows of one result from several threads, and each thread's own comparisons.
class RowChecker {
 public:
  RowChecker(const StepGeometry& geometry, const LayerObservation& observation,
             const CheckOptions& options, LayerResult& expected)
      : geometry_(geometry), observation_(observation), options_(options), expected_(expected) {}

  // `kv` of the row's request.
  void check_row(const RequestKv& kv, std::int64_t row);

  Comparison partial;
  Comparison new_tokens;
  Comparison step;

 private:
  RightRow right_row(const RequestKv& kv, std::int64_t row) const;
  RightState right_state(AttentionState state, DType lse_dtype) const;
  void check_partial(const RightState& right, std::int64_t row, int rank);
  void check_new_tokens(const RightState& right, std::int64_t row);
  WantedRow wanted_step(const RightRow& right, int head) const;
  void store_expected(const WantedRow& want, std::size_t index);

  const StepGeometry& geometry_;
  const LayerObservation& observation_;
  const CheckOptions& options_;
  LayerResult& expected_;
};

void RowChecker::check_row(const RequestKv& kv, std::int64_t row) {
  const RightRow right = right_row(kv, row);
  if (options_.partial) {
    for (int rank = 0; rank < geometry_.world_size(); ++rank) {
      check_partial(right.partials[static_cast<std::size_t>(rank)], row, rank);
    }
    if (geometry_.splits_attention()) check_new_tokens(right.new_tokens, row);
  }
  for (int head = 0; head < geometry_.num_heads(); ++head) {
    const WantedRow want = wanted_step(right, head);
    if (options_.step) {
      compare_outputs(step, {.row = row, .head = head},
                      {observation_, ObservedOutput::Which::kResult, geometry_.dtype()}, want);
    }
    store_expected(want, geometry_.index(row, head));
  }
}

std::vector<Eigen::Index> token_range(Eigen::Index begin, Eigen::Index end) {
  std::vector<Eigen::Index> tokens(static_cast<std::size_t>(end - begin));
  std::iota(tokens.begin(), tokens.end(), begin);
  return tokens;
}

RightRow RowChecker::right_row(const RequestKv& kv, std::int64_t row) const {
  const RowKeys& keys = geometry_.row(row);
  const Eigen::Map<const Eigen::MatrixXf> query(
      observation_.query.data() +
          geometry_.index(row, 0) * static_cast<std::size_t>(geometry_.qk_head_dim()),
      geometry_.qk_head_dim(), geometry_.num_heads());
  const Eigen::MatrixXd scores = kv.scores(query, keys.num_keys);
  RightRow right;
  for (int rank = 0; rank < geometry_.world_size(); ++rank) {
    right.partials.push_back(
        right_state(kv.attend(scores, geometry_.visible_tokens(row, rank)), geometry_.lse().dtype));
  }
  right.whole = kv.attend(scores, token_range(0, keys.num_keys));
  if (!geometry_.splits_attention()) return right;
  right.context = kv.attend(scores, token_range(0, std::min(keys.num_context, keys.num_keys)));
  right.new_tokens = right_state(
      kv.attend(scores, token_range(std::min(keys.num_context, keys.num_keys), keys.num_keys)),
      DType::kFp32);
  return right;
}

RightState RowChecker::right_state(AttentionState state, DType lse_dtype) const {
  const double error = probability_error(options_.probability_dtype);
  RightState right{.state = std::move(state), .out_tolerance = {}, .lse_tolerance = {}};
  right.out_tolerance =
      right.state.out.binaryExpr(right.state.magnitude, [&](double out, double magnitude) {
        return partial_out_tolerance(geometry_.dtype(), out, error, magnitude);
      });
  right.lse_tolerance =
      right.state.lse.unaryExpr([&](double lse) { return partial_lse_tolerance(lse_dtype, lse); });
  return right;
}

void RowChecker::check_partial(const RightState& right, std::int64_t row, int rank) {
  const RankObservation& observed = observation_.ranks[static_cast<std::size_t>(rank)];
  const auto head_dim = static_cast<std::size_t>(geometry_.v_head_dim());
  const bool empty = geometry_.visible_tokens(row, rank).empty();
  if (!observed.is_there() || (empty && !options_.partial_empty_rows)) return;
  for (int head = 0; head < geometry_.num_heads(); ++head) {
    const ElementPlace at{
        .layer = observation_.layer, .rank = rank, .row = row, .head = head, .element = -1};
    const std::size_t index = geometry_.index(row, head);
    const WantedRow want = right.head(head);
    partial.add(at, observed.partial_lse[index], want.lse, want.lse_tolerance);
    if (empty) continue;  // its out may hold anything
    compare_elements(partial, at, observed.partial_out.subspan(index * head_dim, head_dim), want,
                     geometry_.dtype());
  }
}

void RowChecker::check_new_tokens(const RightState& right, std::int64_t row) {
  const bool empty = geometry_.row(row).num_keys == 0;
  if (empty && !options_.partial_empty_rows) return;
  for (int head = 0; head < geometry_.num_heads(); ++head) {
    WantedRow want = right.head(head);
    if (empty) want.out.resize(0);  // it may hold anything
    compare_outputs(new_tokens, {.row = row, .head = head},
                    {observation_, ObservedOutput::Which::kNewTokens, geometry_.dtype()}, want);
  }
}

// The tolerances of a combine and of its parts together, to first order. With the weights w_r / s,
// the lse may be off by the combine's and the weighted sum of the parts' tolerances; out too, and
// by sum of w_r / s * (lse tolerance)_r * (|out_r| + |out|) for the weights: at most
// 2 * (lse tolerance) * S. The values are those of `whole`, the unsharded pass: a key that no rank
// owns is missing in the parts only.
WantedRow wanted_combine(const std::vector<WantedRow>& parts, const AttentionState& whole, int head,
                         const CombineTolerance& tolerance, LseBase base) {
  const auto num_parts = static_cast<Eigen::Index>(parts.size());
  Eigen::ArrayXd lse(num_parts);
  Eigen::ArrayXXd outs(whole.out.rows(), num_parts);
  for (Eigen::Index part = 0; part < num_parts; ++part) {
    lse[part] = parts[static_cast<std::size_t>(part)].lse;
    outs.col(part) = parts[static_cast<std::size_t>(part)].out;
  }
  CombinedRow combined = combine(lse, outs, base);
  combined.out = whole.out.col(head);
  combined.lse = whole.lse[head];
  WantedRow want = wanted_row(combined, tolerance);
  for (Eigen::Index part = 0; part < num_parts; ++part) {
    const double weight = combined.weights[part];
    if (weight == 0) continue;
    const WantedRow& right = parts[static_cast<std::size_t>(part)];
    const double lse_tolerance = weight * right.lse_tolerance;
    want.out_tolerance +=
        weight * right.out_tolerance + lse_tolerance * (right.out.abs() + combined.out.abs());
    want.lse_tolerance += lse_tolerance;
  }
  return want;
}

// The combine of the ranks' partials or, where new tokens are attended to apart, the merge of the
// combined context with them.
WantedRow RowChecker::wanted_step(const RightRow& right, int head) const {
  const LseBase base = geometry_.lse().base;
  std::vector<WantedRow> parts;
  for (const RightState& partial_state : right.partials) parts.push_back(partial_state.head(head));
  if (!geometry_.splits_attention()) {
    return wanted_combine(parts, right.whole, head, geometry_.tolerance(), base);
  }
  const WantedRow context = wanted_combine(parts, right.context, head, geometry_.tolerance(), base);
  return wanted_combine({context, right.new_tokens.head(head)}, right.whole, head,
                        geometry_.merge_tolerance(), base);
}

void RowChecker::store_expected(const WantedRow& want, std::size_t index) {
  const auto first = static_cast<std::ptrdiff_t>(index) * geometry_.v_head_dim();
  expected_.lse[index] = want.lse;
  expected_.lse_tolerance[index] = want.lse_tolerance;
  std::copy(want.out.begin(), want.out.end(), expected_.out.begin() + first);
  std::copy(want.out_tolerance.begin(), want.out_tolerance.end(),
            expected_.out_tolerance.begin() + first);
}

// Rows of no request: they have no keys, on any rank.
void check_padding(const StepGeometry& geometry, RowChecker& checker) {
  const RequestKv no_keys(geometry);
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
      const RequestKv kv(geometry, data, observation.layer, r);
      for (std::int64_t row = 0; row < geometry.num_rows(); ++row) {
        if (geometry.row(row).request == static_cast<int>(r)) checker.check_row(kv, row);
      }
    }
    return checker;
  };
  const auto take = [&](const RowChecker& checker) {
    check.partial.merge(checker.partial);
    check.new_tokens.merge(checker.new_tokens);
    check.step.merge(checker.step);
  };
  const std::size_t num_threads =
      std::min<std::size_t>(std::max(1u, std::thread::hardware_concurrency()),
                            std::max<std::size_t>(1, geometry.num_requests()));
  std::vector<std::future<RowChecker>> others;
  for (std::size_t i = 1; i < num_threads; ++i) {
    others.push_back(std::async(std::launch::async, work));
  }
  take(work());
  RowChecker padding(geometry, observation, options, check.expected);
  check_padding(geometry, padding);
  take(padding);
  for (auto& other : others) take(other.get());
}

}  // namespace dcp
