// The host body of the attention ops: row after row, the query heads of a KV head together. An op
// says which keys a row sees and where they are; the arithmetic is that of attention_tile.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/lse.hpp"
#include "kernels/batch_metadata.hpp"
#include "kernels/empty_row_mode.hpp"
#include "kernels/head_rows.hpp"
#include "kernels/key_tile.hpp"
#include "kernels/strided_row.hpp"
#include "kernels/team.hpp"

namespace dcp {

// Query head i reads KV head (first_head + i) / heads_per_kv_head. Split s of S of a row takes the
// keys n*s/S .. n*(s+1)/S - 1 of its n, and is row s*T + t of out and lse.
struct AttentionRows {
  ConstHeadRows query;                 // [T, num_heads, Dq]
  HeadRows out;                        // [S, T, num_heads, D]
  HeadRows lse;                        // [S, T, num_heads]
  BatchMetadata batch;                 // with query_start_loc
  const std::int32_t* empty_row_mode;  // one EmptyRowMode; null: kExact
  std::int64_t num_tokens;
  int num_heads;
  int first_head;
  int heads_per_kv_head;
  int qk_head_dim;
  int v_head_dim;
  int num_splits;
  bool value_is_in_key;  // the value is the key's first D elements
  float softmax_scale;
  LseBase base;
};

// One key and its value, of one KV head; of the query's type or another.
template <class Kv>
struct KeyValue {
  const Kv* key;
  const Kv* value;
};

// Where a row's result goes.
struct RowTarget {
  HeadRows out;  // [rows, num_heads, dim]
  HeadRows lse;  // [rows, num_heads]
  int num_heads;
  int dim;
};

// Writes what the mode says into a row without keys, if anything.
inline void fill_empty_row(EmptyRowMode mode, const RowTarget& target, std::int64_t row,
                           bool is_padding) {
  const EmptyRow empty = empty_row(mode, is_padding);
  if (!empty.is_written) return;
  const HeadRows& out = target.out;
  const HeadRows& lse = target.lse;
  dispatch_dtype(out.dtype, [&]<class Out>() {
    for (int head = 0; head < target.num_heads; ++head) {
      fill_row<OneLane>(StridedRow<Out>{static_cast<Out*>(out.data) + out.strides.offset(row, head),
                                        out.strides.element},
                        target.dim, empty.out);
      store_element(lse.data, lse.dtype, static_cast<std::size_t>(lse.strides.offset(row, head)),
                    empty.lse);
    }
  });
}

// Attention of a row's query heads that share one KV head.
template <class T>
class RowAttention {
 public:
  struct Task {
    std::int64_t token;      // row of the query
    std::int64_t out_row;    // row of out and lse
    int first_head;          // of the op
    int num_heads;           // at most heads_per_kv_head
    std::int64_t first_key;  // keys first_key .. end_key - 1, at least one
    std::int64_t end_key;
  };

  explicit RowAttention(const AttentionRows& rows)
      : rows_(rows),
        v_stride_(static_cast<std::size_t>(num_panels(rows.v_head_dim)) * kPanelLanes),
        keys_(rows.qk_head_dim),
        values_(rows.value_is_in_key ? 0 : rows.v_head_dim) {
    const auto heads = static_cast<std::size_t>(std::min(rows.num_heads, rows.heads_per_kv_head));
    query_.resize(heads * static_cast<std::size_t>(rows.qk_head_dim));
    scores_.resize(heads * kTileKeys);
    shrink_.resize(heads);
    softmax_.resize(heads);
    sums_.resize(heads * v_stride_);
    errors_.resize(heads * v_stride_);
  }

  // `key_value_of(key)` is a KeyValue.
  template <class KeyValueOf>
  void run(const Task& task, const KeyValueOf& key_value_of) {
    task_ = task;
    load_query();
    std::fill(softmax_.begin(), softmax_.end(), OnlineSoftmax{});
    std::fill(sums_.begin(), sums_.end(), 0.0f);
    std::fill(errors_.begin(), errors_.end(), 0.0f);
    for (std::int64_t first = task.first_key; first < task.end_key; first += kTileKeys) {
      const int count = static_cast<int>(std::min<std::int64_t>(kTileKeys, task.end_key - first));
      for (int key = 0; key < count; ++key) {
        const auto at = key_value_of(first + key);
        keys_.set_key(key, at.key);
        if (!rows_.value_is_in_key) values_.set_key(key, at.value);
      }
      keys_.transpose();
      add_scores();
      for (std::size_t head = 0; head < num_heads(); ++head) {
        shrink_[head] = softmax_tile<OneLane>(&scores_[head * kTileKeys], count,
                                              rows_.softmax_scale, softmax_[head]);
      }
      add_values(count, rows_.value_is_in_key ? keys_ : values_);
    }
    dispatch_dtype(rows_.out.dtype, [&]<class Out>() { store<Out>(); });
  }

 private:
  std::size_t num_heads() const { return static_cast<std::size_t>(task_.num_heads); }

  void load_query() {
    const auto* query = static_cast<const T*>(rows_.query.data);
    const int dim = rows_.qk_head_dim;
    for (int head = 0; head < task_.num_heads; ++head) {
      const StridedRow<const T> from{
          query + rows_.query.strides.offset(task_.token, task_.first_head + head),
          rows_.query.strides.element};
      for (int i = 0; i < dim; ++i) query_[std::size_t(head) * dim + i] = to_float(from[i]);
    }
  }

  void add_scores() {
    std::fill(scores_.begin(), scores_.end(), 0.0f);
    for (int first = 0; first < rows_.qk_head_dim; first += kPanelLanes) {
      const int count = std::min(kPanelLanes, rows_.qk_head_dim - first);
      for (std::size_t head = 0; head < num_heads(); ++head) {
        float part[kPanelLanes];
        sum_weighted_rows(&query_[head * rows_.qk_head_dim + first], keys_.columns(first), count,
                          part);
        float* scores = &scores_[head * kTileKeys];
        for (int key = 0; key < kTileKeys; ++key) scores[key] += part[key];
      }
    }
  }

  void add_values(int num_keys, const KeyTile& values) {
    for (int first = 0; first < rows_.v_head_dim; first += kPanelLanes) {
      for (std::size_t head = 0; head < num_heads(); ++head) {
        float part[kPanelLanes];
        sum_weighted_rows(&scores_[head * kTileKeys], values.rows(first), num_keys, part);
        float* sums = &sums_[head * v_stride_ + first];
        float* errors = &errors_[head * v_stride_ + first];
        const float shrink = shrink_[head];
        for (int i = 0; i < kPanelLanes; ++i) shrink_and_add(sums[i], errors[i], shrink, part[i]);
      }
    }
  }

  template <class Out>
  void store() {
    auto* out = static_cast<Out*>(rows_.out.data);
    for (int i = 0; i < task_.num_heads; ++i) {
      const int head = task_.first_head + i;
      const OnlineSoftmax& softmax = softmax_[std::size_t(i)];
      const float* sums = &sums_[std::size_t(i) * v_stride_];
      const StridedRow<Out> to{out + rows_.out.strides.offset(task_.out_row, head),
                               rows_.out.strides.element};
      for (int j = 0; j < rows_.v_head_dim; ++j) to[j] = from_float<Out>(sums[j] / softmax.sum);
      store_element(rows_.lse.data, rows_.lse.dtype,
                    static_cast<std::size_t>(rows_.lse.strides.offset(task_.out_row, head)),
                    attention_lse(softmax, rows_.base));
    }
  }

  const AttentionRows& rows_;
  std::size_t v_stride_;
  KeyTile keys_;
  KeyTile values_;  // unused where the value is in the key
  Task task_{};
  std::vector<float> query_;            // [heads, Dq]
  std::vector<float> scores_;           // [heads, 64], then the probabilities
  std::vector<float> shrink_;           // [heads]
  std::vector<OnlineSoftmax> softmax_;  // [heads]
  std::vector<float> sums_;             // [heads, D rounded up to panels]
  std::vector<float> errors_;           // what the sums lost
};

// All rows. `key_value_of(request, key, kv_head)` is a KeyValue. A row without keys is left as
// the mode says, in every split; a split without keys of a row that has some is out 0, lse -inf.
template <class T, class KeyValueOf>
void attend_rows(const AttentionRows& rows, const KeyValueOf& key_value_of) {
  RowAttention<T> attention(rows);
  const RowTarget target{rows.out, rows.lse, rows.num_heads, rows.v_head_dim};
  const auto mode = rows.empty_row_mode == nullptr
                        ? EmptyRowMode::kExact
                        : static_cast<EmptyRowMode>(*rows.empty_row_mode);
  for (std::int64_t token = 0; token < rows.num_tokens; ++token) {
    const std::int32_t request = request_of_row(rows.batch, token);
    const std::int64_t num_keys = visible_keys(rows.batch, token);
    for (int split = 0; split < rows.num_splits; ++split) {
      const std::int64_t out_row = split * rows.num_tokens + token;
      const std::int64_t first_key = num_keys * split / rows.num_splits;
      const std::int64_t end_key = num_keys * (split + 1) / rows.num_splits;
      if (first_key == end_key) {
        fill_empty_row(num_keys > 0 ? EmptyRowMode::kExact : mode, target, out_row,
                       request >= rows.batch.num_requests);
        continue;
      }
      for (int head = 0, end = 0; head < rows.num_heads; head = end) {
        const int kv_head = (rows.first_head + head) / rows.heads_per_kv_head;
        end = std::min(rows.num_heads, (kv_head + 1) * rows.heads_per_kv_head - rows.first_head);
        attention.run({token, out_row, head, end - head, first_key, end_key},
                      [&](std::int64_t key) { return key_value_of(request, key, kv_head); });
      }
    }
  }
}

}  // namespace dcp
