// A tile of key or value vectors as fp32, converted once for all query heads that read them: in
// panels of 64 elements, [key][64] for sums over keys and [64][key] for sums over elements.
// Both products of attention are sums of weighted rows of 64 floats. A panel of 64 such rows is
// 16 KiB: it stays in the first-level cache while all heads use it, and 64 sums stay in registers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/dtype.hpp"
#include "kernels/attention_tile.hpp"

namespace dcp {

inline constexpr int kPanelLanes = 64;
static_assert(kTileKeys == kPanelLanes);

constexpr int num_panels(int dim) { return (dim + kPanelLanes - 1) / kPanelLanes; }

// sums[j] = sum over i < count of weights[i] * rows[i][j].
inline void sum_weighted_rows(const float* weights, const float* rows, int count, float* sums) {
  float total[kPanelLanes] = {};
  for (int i = 0; i < count; ++i) {
    for (int j = 0; j < kPanelLanes; ++j) total[j] += weights[i] * rows[i * kPanelLanes + j];
  }
  for (int j = 0; j < kPanelLanes; ++j) sums[j] = total[j];
}

class KeyTile {
 public:
  explicit KeyTile(int dim)
      : dim_(dim),
        rows_(static_cast<std::size_t>(num_panels(dim) * kPanelSize)),
        columns_(rows_.size()) {}

  template <class T>
  void set_key(int key, const T* from) {
    for (int first = 0; first < dim_; first += kPanelLanes) {
      const int count = std::min(kPanelLanes, dim_ - first);
      float* row = &rows_[first * kTileKeys + key * kPanelLanes];
      for (int i = 0; i < count; ++i) row[i] = to_float(from[first + i]);
    }
  }

  void transpose() {
    constexpr int kBlock = 8;
    for (int panel = 0; panel < num_panels(dim_) * kPanelSize; panel += kPanelSize) {
      for (int first = 0; first < kPanelLanes; first += kBlock) {
        for (int key = 0; key < kTileKeys; ++key) {
          const float* row = &rows_[panel + key * kPanelLanes + first];
          for (int i = 0; i < kBlock; ++i) columns_[panel + (first + i) * kTileKeys + key] = row[i];
        }
      }
    }
  }

  // Elements first .. first + 63 of all keys: [key][64]; and, as transpose() left them, [64][key].
  const float* rows(int first) const { return &rows_[first * kTileKeys]; }
  const float* columns(int first) const { return &columns_[first * kTileKeys]; }

 private:
  static constexpr int kPanelSize = kPanelLanes * kTileKeys;

  int dim_;
  std::vector<float> rows_;
  std::vector<float> columns_;
};

}  // namespace dcp
