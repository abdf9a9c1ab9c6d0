#include "kernels/mla_attention.hpp"

#include <algorithm>
#include <string>

#include "core/error.hpp"
#include "kernels/accesses.hpp"
#include "kernels/attention_tile.hpp"
#include "kernels/strided_row.hpp"
#include "kernels/team.hpp"

namespace dcp {

namespace {

// Both products of attention are sums of weighted rows of 64 floats. A panel of 64 such rows is
// 16 KiB: it stays in the first-level cache while all heads use it, and 64 sums stay in registers.
constexpr int kLanes = 64;
static_assert(kTileKeys == kLanes);

constexpr int num_panels(int dim) { return (dim + kLanes - 1) / kLanes; }

// sums[j] = sum over i < count of weights[i] * rows[i][j].
void sum_weighted_rows(const float* weights, const float* rows, int count, float* sums) {
  float total[kLanes] = {};
  for (int i = 0; i < count; ++i) {
    for (int j = 0; j < kLanes; ++j) total[j] += weights[i] * rows[i * kLanes + j];
  }
  for (int j = 0; j < kLanes; ++j) sums[j] = total[j];
}

// A tile of keys as fp32, converted once for all heads: in panels of 64 elements, [key][64] for the
// values and [64][key] for the scores.
class KeyTile {
 public:
  explicit KeyTile(int dim)
      : dim_(dim),
        rows_(static_cast<std::size_t>(num_panels(dim) * kPanelSize)),
        columns_(rows_.size()) {}

  template <class T>
  void set_key(int key, const T* from) {
    for (int first = 0; first < dim_; first += kLanes) {
      const int count = std::min(kLanes, dim_ - first);
      float* row = &rows_[first * kTileKeys + key * kLanes];
      for (int i = 0; i < count; ++i) row[i] = to_float(from[first + i]);
    }
  }

  void transpose() {
    constexpr int kBlock = 8;
    for (int panel = 0; panel < num_panels(dim_) * kPanelSize; panel += kPanelSize) {
      for (int first = 0; first < kLanes; first += kBlock) {
        for (int key = 0; key < kTileKeys; ++key) {
          const float* row = &rows_[panel + key * kLanes + first];
          for (int i = 0; i < kBlock; ++i) columns_[panel + (first + i) * kTileKeys + key] = row[i];
        }
      }
    }
  }

  // Elements first .. first + 63 of all keys: [key][64]; and [64][key].
  const float* rows(int first) const { return &rows_[first * kTileKeys]; }
  const float* columns(int first) const { return &columns_[first * kTileKeys]; }

 private:
  static constexpr int kPanelSize = kLanes * kTileKeys;

  int dim_;
  std::vector<float> rows_;
  std::vector<float> columns_;
};

// Attention of all heads of one row at a time.
template <class T>
class RowAttention {
 public:
  explicit RowAttention(const MlaAttention::Params& params)
      : params_(params),
        v_stride_(num_panels(params.v_head_dim) * kLanes),
        tile_(params.qk_head_dim),
        query_(heads() * params.qk_head_dim),
        scores_(heads() * kTileKeys),
        shrink_(heads()),
        softmax_(heads()),
        sums_(heads() * v_stride_),
        errors_(heads() * v_stride_) {}

  void run(std::int64_t token, std::int32_t request, std::int32_t num_keys) {
    load_query(token);
    std::fill(softmax_.begin(), softmax_.end(), OnlineSoftmax{});
    std::fill(sums_.begin(), sums_.end(), 0.0f);
    std::fill(errors_.begin(), errors_.end(), 0.0f);
    for (std::int64_t first = 0; first < num_keys; first += kTileKeys) {
      const int count = static_cast<int>(std::min<std::int64_t>(kTileKeys, num_keys - first));
      for (int key = 0; key < count; ++key) tile_.set_key(key, key_row(request, first + key));
      tile_.transpose();
      add_scores();
      for (std::size_t head = 0; head < heads(); ++head) {
        shrink_[head] = softmax_tile<OneLane>(&scores_[head * kTileKeys], count,
                                              params_.softmax_scale, softmax_[head]);
      }
      add_values(count);
    }
    store(token);
  }

 private:
  std::size_t heads() const { return static_cast<std::size_t>(params_.num_heads); }

  void load_query(std::int64_t token) {
    const auto* query = static_cast<const T*>(params_.query.data);
    const int dim = params_.qk_head_dim;
    for (int head = 0; head < params_.num_heads; ++head) {
      const StridedRow<const T> from{query + params_.query.strides.offset(token, head),
                                     params_.query.strides.element};
      for (int i = 0; i < dim; ++i) query_[std::size_t(head) * dim + i] = to_float(from[i]);
    }
  }

  const T* key_row(std::int32_t request, std::int64_t key) const {
    const std::int64_t page = key / params_.block_size;
    const std::int64_t entry = std::int64_t{request} * params_.block_table_stride + page;
    const bool is_in_table =
        entry < std::int64_t{params_.batch.num_requests} * params_.block_table_stride;
    const std::int64_t block = is_in_table ? params_.block_table[entry] : -1;
    if (block < 0 || block >= params_.num_blocks) {
      throw Failure("illegal_address", -1,
                    "mla_attention reads local key " + std::to_string(key) + " of request " +
                        std::to_string(request) + " from " +
                        (is_in_table ? "block " + std::to_string(block) + " of a cache of " +
                                           std::to_string(params_.num_blocks) + " blocks"
                                     : "page " + std::to_string(page) + ", past the block table"));
    }
    const std::int64_t row = block * params_.block_size + key % params_.block_size;
    return static_cast<const T*>(params_.kv_cache) + row * params_.qk_head_dim;
  }

  void add_scores() {
    std::fill(scores_.begin(), scores_.end(), 0.0f);
    for (int first = 0; first < params_.qk_head_dim; first += kLanes) {
      const int count = std::min(kLanes, params_.qk_head_dim - first);
      for (std::size_t head = 0; head < heads(); ++head) {
        float part[kLanes];
        sum_weighted_rows(&query_[head * params_.qk_head_dim + first], tile_.columns(first), count,
                          part);
        float* scores = &scores_[head * kTileKeys];
        for (int key = 0; key < kTileKeys; ++key) scores[key] += part[key];
      }
    }
  }

  void add_values(int num_keys) {
    for (int first = 0; first < params_.v_head_dim; first += kLanes) {
      for (std::size_t head = 0; head < heads(); ++head) {
        float part[kLanes];
        sum_weighted_rows(&scores_[head * kTileKeys], tile_.rows(first), num_keys, part);
        float* sums = &sums_[head * v_stride_ + first];
        float* errors = &errors_[head * v_stride_ + first];
        const float shrink = shrink_[head];
        for (int i = 0; i < kLanes; ++i) shrink_and_add(sums[i], errors[i], shrink, part[i]);
      }
    }
  }

  void store(std::int64_t token) {
    auto* out = static_cast<T*>(params_.out.data);
    for (int head = 0; head < params_.num_heads; ++head) {
      const OnlineSoftmax& softmax = softmax_[std::size_t(head)];
      const float* sums = &sums_[std::size_t(head) * v_stride_];
      const StridedRow<T> to{out + params_.out.strides.offset(token, head),
                             params_.out.strides.element};
      for (int i = 0; i < params_.v_head_dim; ++i) to[i] = from_float<T>(sums[i] / softmax.sum);
      store_element(params_.lse.data, params_.lse.dtype,
                    static_cast<std::size_t>(params_.lse.strides.offset(token, head)),
                    attention_lse(softmax, params_.base));
    }
  }

  const MlaAttention::Params& params_;
  std::size_t v_stride_;
  KeyTile tile_;
  std::vector<float> query_;            // [H, Dq]
  std::vector<float> scores_;           // [H, 64], then the probabilities
  std::vector<float> shrink_;           // [H]
  std::vector<OnlineSoftmax> softmax_;  // [H]
  std::vector<float> sums_;             // [H, D rounded up to panels]
  std::vector<float> errors_;           // what the sums lost
};

template <class T>
void fill_empty_row(const MlaAttention::Params& params, std::int64_t token, bool is_padding) {
  const EmptyRow row = empty_row(static_cast<EmptyRowMode>(*params.empty_row_mode), is_padding);
  if (!row.is_written) return;
  auto* out = static_cast<T*>(params.out.data);
  for (int head = 0; head < params.num_heads; ++head) {
    fill_row<OneLane>(
        StridedRow<T>{out + params.out.strides.offset(token, head), params.out.strides.element},
        params.v_head_dim, row.out);
    store_element(params.lse.data, params.lse.dtype,
                  static_cast<std::size_t>(params.lse.strides.offset(token, head)), row.lse);
  }
}

}  // namespace

void MlaAttention::accesses(const Params& params, std::vector<Access>& out) {
  if (params.num_tokens == 0) return;
  constexpr std::int64_t kInt = sizeof(std::int32_t);
  const ViewShape value_shape{params.num_tokens, params.num_heads, params.v_head_dim};
  const std::int64_t cache_elements = params.num_blocks * params.block_size * params.qk_head_dim;
  const std::int64_t table_entries =
      std::int64_t{params.batch.num_requests} * params.block_table_stride;
  declare_read(out, params.query, {params.num_tokens, params.num_heads, params.qk_head_dim},
               "query");
  declare(out, params.kv_cache,
          cache_elements * static_cast<std::int64_t>(size_bytes(params.query.dtype)), Mode::kRead,
          "kv_cache");
  declare(out, params.block_table, table_entries * kInt, Mode::kRead, "block_table");
  declare_batch(out, params.batch, params.num_tokens);
  declare_write(out, params.out, value_shape, "out");
  declare_write(out, params.lse, {params.num_tokens, params.num_heads, 1}, "lse");
  declare(out, params.empty_row_mode, kInt, Mode::kRead, "empty_row_mode");
}

void MlaAttention::run(const Params& params) {
  dispatch_dtype(params.query.dtype, [&]<class T>() {
    RowAttention<T> attention(params);
    for (std::int64_t token = 0; token < params.num_tokens; ++token) {
      const std::int32_t request = request_of_row(params.batch, token);
      const std::int32_t num_keys = visible_keys(params.batch, token);
      if (num_keys > 0) {
        attention.run(token, request, num_keys);
      } else {
        fill_empty_row<T>(params, token, request >= params.batch.num_requests);
      }
    }
  });
}

}  // namespace dcp
