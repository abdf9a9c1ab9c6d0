// One row of a strided view and the arithmetic that maps a row to a row.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/dtype.hpp"
#include "core/host_device.hpp"

namespace dcp {

// Element i of the row is data[i * stride].
template <class T>
struct StridedRow {
  T* data;
  std::int64_t stride;

  DCP_HOST_DEVICE T& operator[](std::int64_t i) const { return data[i * stride]; }
};

// to = factor * from, rounded; 0 where factor is 0, and then `from` is not read.
template <class Team, class In, class Out>
DCP_HOST_DEVICE void scale_row(StridedRow<const In> from, StridedRow<Out> to, int dim,
                               float factor) {
  for (int i = Team::lane(); i < dim; i += Team::size()) {
    to[i] = from_float<Out>(factor == 0.0f ? 0.0f : factor * to_float(from[i]));
  }
}

// to = value in every element.
template <class Team, class Out>
DCP_HOST_DEVICE void fill_row(StridedRow<Out> to, int dim, float value) {
  for (int i = Team::lane(); i < dim; i += Team::size()) to[i] = from_float<Out>(value);
}

struct RotatedRow {
  int from_dim;
  int to_dim;
  std::int64_t shift;  // >= 0
};

// to[i] = from[(i + shift) mod from_dim] / (rms(from) + 2^-10), rms in fp32; `to` is another row.
template <class Team, class In, class Out>
DCP_HOST_DEVICE void normalise_row(StridedRow<const In> from, StridedRow<Out> to,
                                   const RotatedRow& rotated) {
  float sum = 0.0f;
  for (int i = Team::lane(); i < rotated.from_dim; i += Team::size()) {
    const float x = to_float(from[i]);
    sum += x * x;
  }
  const float rms = std::sqrt(Team::sum(sum) / static_cast<float>(rotated.from_dim));
  for (int i = Team::lane(); i < rotated.to_dim; i += Team::size()) {
    const float x = to_float(from[(i + rotated.shift) % rotated.from_dim]);
    to[i] = from_float<Out>(x / (rms + 0x1p-10f));
  }
}

}  // namespace dcp
