#include "reference/kv_gather_check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>

#include "core/poison.hpp"
#include "reference/ownership.hpp"

namespace dcp {

namespace {

struct Format {
  int exponent_bits;
  int mantissa_bits;
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
      return {8, 7};
    case DType::kFp16:
      return {5, 10};
    case DType::kFp8E4m3:
      return {4, 3};
    case DType::kFp32:
      break;
  }
  return {8, 23};
}

// The bits of a number that the format holds exactly, field by field.
std::uint32_t bits_of(double value, const Format& format) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const std::uint32_t sign =
      std::signbit(value) ? 1u << (format.exponent_bits + format.mantissa_bits) : 0u;
  if (value == 0) return sign;
  const int exponent = std::max(std::ilogb(value), 1 - bias);
  const auto significand =
      static_cast<std::uint32_t>(std::ldexp(std::abs(value), format.mantissa_bits - exponent));
  const std::uint32_t hidden = 1u << format.mantissa_bits;
  if (significand < hidden) return sign | significand;  // subnormal
  return sign | static_cast<std::uint32_t>(exponent + bias) << format.mantissa_bits |
         (significand - hidden);
}

// Requests that have a row in the range, ascending.
std::set<int> requests_in(const Batch& batch, const RowRange& range) {
  std::set<int> requests;
  const auto rows = list_row_keys(batch, range.first + range.count);
  for (auto row = rows.begin() + range.first; row != rows.end(); ++row) {
    if (row->request >= 0) requests.insert(row->request);
  }
  return requests;
}

std::uint32_t bits_at(const std::vector<std::byte>& bytes, std::size_t element, std::size_t size) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < size; ++i) {
    bits |= static_cast<std::uint32_t>(bytes[element * size + i]) << (8 * i);
  }
  return bits;
}

}  // namespace

KvGatherReference::KvGatherReference(const Scenario& scenario, const Batch& batch,
                                     std::span<const RowRange> ubatches)
    : spec_(*scenario.kv_gather),
      data_(scenario),
      rows_per_rank_(static_cast<std::size_t>(spec_.tokens / scenario.world_size)) {
  const std::vector<std::int64_t> boundaries = row_boundaries(batch);
  for (const RowRange& ubatch : ubatches) {
    for (int rank = 0; rank < scenario.world_size; ++rank) {
      const std::size_t end = rows_.size() + rows_per_rank_;
      for (const int request : requests_in(batch, ubatch)) {
        const auto index = static_cast<std::size_t>(request);
        const std::int64_t context =
            batch.seq_lens[index] - (boundaries[index + 1] - boundaries[index]);
        const std::vector<int> owners = list_owners(scenario, batch, request);
        for (std::int64_t token = 0; token < context && rows_.size() < end; ++token) {
          if (owners[static_cast<std::size_t>(token)] != rank) continue;
          rows_.push_back({.request = request, .token = token, .owner = rank});
        }
      }
      rows_.resize(end);
    }
  }
}

std::vector<std::byte> KvGatherReference::expected(int layer) const {
  const auto dim = static_cast<std::size_t>(spec_.dim);
  const std::size_t element_bytes = size_bytes(spec_.dtype);
  const std::size_t chunk_bytes = rows_per_rank_ * dim * element_bytes;
  std::vector<std::byte> bytes(rows_.size() * dim * element_bytes);
  for (std::size_t at = 0; at < bytes.size(); at += chunk_bytes) {
    poison(bytes.data() + at, chunk_bytes);
  }
  std::vector<float> values(dim);
  std::byte* to = bytes.data();
  for (const Row& row : rows_) {
    if (row.token < 0) {
      to += dim * element_bytes;
      continue;
    }
    data_.chunk_row({layer, row.request, row.token, row.owner}, spec_.dtype, values);
    for (const float value : values) {
      const std::uint32_t bits = bits_of(value, format_of(spec_.dtype));
      for (std::size_t i = 0; i < element_bytes; ++i) {
        *to++ = static_cast<std::byte>(bits >> (8 * i));
      }
    }
  }
  return bytes;
}

Comparison KvGatherReference::check(int layer,
                                    std::span<const std::vector<std::byte>> of_ranks) const {
  const std::vector<std::byte> want = expected(layer);
  const std::size_t element_bytes = size_bytes(spec_.dtype);
  Comparison comparison;
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    const std::vector<std::byte>& got = of_ranks[rank];
    if (got.empty() || got == want) continue;
    if (got.size() != want.size()) {
      throw std::invalid_argument("rank " + std::to_string(rank) + " gathered " +
                                  std::to_string(got.size()) + " bytes of KV, not " +
                                  std::to_string(want.size()));
    }
    for (std::size_t i = 0; i < want.size() / element_bytes; ++i) {
      if (bits_at(got, i, element_bytes) == bits_at(want, i, element_bytes)) continue;
      const double is = load_element(got.data(), spec_.dtype, i);
      const double should = load_element(want.data(), spec_.dtype, i);
      const auto dim = static_cast<std::size_t>(spec_.dim);
      // Zeros of different signs are other bits, too.
      comparison.add({.layer = layer,
                      .rank = static_cast<int>(rank),
                      .row = static_cast<std::int64_t>(i / dim),
                      .element = static_cast<int>(i % dim)},
                     is == should ? std::numeric_limits<double>::quiet_NaN() : is, should, 0);
    }
  }
  return comparison;
}

}  // namespace dcp
