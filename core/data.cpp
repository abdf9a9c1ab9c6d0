// Random data without state: the coordinates of a row are hashed into a key, and pair i of the row
// is a hash of (key, i). Box-Muller turns the 64 bits of a pair into two normal values. Logarithm,
// sine and cosine are polynomials of plain float operations: the C library picks other code on
// other processors, and one last bit would change the bits of a whole run.
#include "core/data.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>

namespace dcp {

namespace {

enum class Field : std::uint64_t { kQuery = 1, kKey = 2, kValue = 3, kChunk = 4 };

constexpr std::uint64_t kGoldenGamma = 0x9E3779B97F4A7C15u;  // splitmix64's step

// The output function of splitmix64 (Steele, Lea and Flood 2014): a bijection of 64 bits.
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

struct RowAddress {
  std::uint64_t seed;
  Field field;
  int layer;
  int request;
  std::int64_t token;
  int head;
};

std::uint64_t row_key(const RowAddress& row) {
  std::uint64_t key = mix(row.seed + kGoldenGamma);
  for (const std::uint64_t part :
       {static_cast<std::uint64_t>(row.field), static_cast<std::uint64_t>(row.layer),
        static_cast<std::uint64_t>(row.request), static_cast<std::uint64_t>(row.token),
        static_cast<std::uint64_t>(row.head)}) {
    key = mix((key ^ part) + kGoldenGamma);
  }
  return key;
}

// -2 * ln(u) for u = (bits + 1) / 2^24, bits < 2^24. Polynomial of Cephes' logf on
// [sqrt(1/2), sqrt(2)).
inline float minus_two_log(std::uint32_t bits) {
  const float u = static_cast<float>(static_cast<std::int32_t>(bits + 1)) * 0x1p-24f;
  const std::int32_t raw = std::bit_cast<std::int32_t>(u);
  const std::int32_t exponent = (raw - 0x3F3504F3) >> 23;
  const float f = std::bit_cast<float>(raw - (exponent << 23)) - 1.0f;
  float p = 7.0376836292e-2f;
  p = p * f - 1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f - 1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f - 1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f - 2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  const float square = f * f;
  const float log_mantissa = f + (p * f * square - 0.5f * square);
  return -2.0f * (log_mantissa + static_cast<float>(exponent) * 0.69314718056f);
}

struct Direction {
  float x;
  float y;
};

// A uniform point of the unit circle. The low 30 bits are an angle within a quarter turn around
// 0; bit 31 mirrors it to the quarter around pi/2, bit 30 to the opposite side. Polynomials of
// Cephes' sinf and cosf on [-pi/4, pi/4).
inline Direction direction(std::uint32_t bits) {
  const float angle =
      static_cast<float>(static_cast<std::int32_t>(bits << 2)) * (1.57079632679f * 0x1p-32f);
  const float square = angle * angle;
  const float sine = ((-1.9515295891e-4f * square + 8.3321608736e-3f) * square - 1.6666654611e-1f) *
                         square * angle +
                     angle;
  const float cosine =
      ((2.443315711809948e-5f * square - 1.388731625493765e-3f) * square + 4.166664568298827e-2f) *
          square * square -
      0.5f * square + 1.0f;
  const bool mirrored = bits >> 31;
  const float sign = (bits >> 30) & 1u ? -1.0f : 1.0f;
  return {sign * (mirrored ? sine : cosine), sign * (mirrored ? cosine : sine)};
}

constexpr std::size_t kPairs = 32;  // pairs per block: stays in registers and the first cache

// Normal values of pairs first_pair .. first_pair + kPairs - 1. Separate loops, so that the
// compiler vectorises the polynomials.
void normal_block(std::uint64_t key, std::uint64_t first_pair, std::array<float, 2 * kPairs>& out) {
  std::array<std::uint32_t, kPairs> high;
  std::array<std::uint32_t, kPairs> low;
  for (std::size_t i = 0; i < kPairs; ++i) {
    const std::uint64_t bits = mix(key + (first_pair + i + 1) * kGoldenGamma);
    high[i] = static_cast<std::uint32_t>(bits >> 40);
    low[i] = static_cast<std::uint32_t>(bits);
  }
  std::array<float, kPairs> radius;
  std::array<float, kPairs> x;
  std::array<float, kPairs> y;
  for (std::size_t i = 0; i < kPairs; ++i) {
    const Direction to = direction(low[i]);
    radius[i] = minus_two_log(high[i]);
    x[i] = to.x;
    y[i] = to.y;
  }
  for (std::size_t i = 0; i < kPairs; ++i) {
    const float length = std::sqrt(radius[i]);
    out[2 * i] = length * x[i];
    out[2 * i + 1] = length * y[i];
  }
}

void fill_normal(const RowAddress& row, DType dtype, std::span<float> out) {
  const std::uint64_t key = row_key(row);
  dispatch_any_dtype(dtype, [&]<class T>() {
    std::array<float, 2 * kPairs> block;
    for (std::size_t first = 0; first < out.size(); first += block.size()) {
      normal_block(key, first / 2, block);
      const std::size_t count = std::min(block.size(), out.size() - first);
      for (std::size_t i = 0; i < count; ++i) out[first + i] = to_float(from_float<T>(block[i]));
    }
  });
}

}  // namespace

InputData::InputData(const Scenario& scenario)
    : kind_(scenario.data.kind),
      seed_(scenario.data.seed),
      dtype_(scenario.dtype),
      head_dim_(scenario.model.attention == Attention::kMla
                    ? 0
                    : static_cast<std::size_t>(scenario.model.head_dim)),
      num_kv_heads_(scenario.group_num_kv_heads()) {}

void InputData::query(int request, std::int64_t position, int head, std::span<float> out) const {
  if (kind_ != DataKind::kRandom) {
    std::fill(out.begin(), out.end(), 0.0f);
    return;
  }
  fill_normal({.seed = seed_,
               .field = Field::kQuery,
               .layer = 0,
               .request = request,
               .token = position,
               .head = head},
              dtype_, out);
}

void InputData::kv_row(int layer, int request, std::int64_t token, int owner,
                       std::span<float> out) const {
  if (kind_ != DataKind::kRandom) {
    std::fill(out.begin(), out.end(), static_cast<float>(owner + 1));
    return;
  }
  const std::size_t dim = head_dim_ == 0 ? out.size() : head_dim_;
  const auto heads = static_cast<std::size_t>(num_kv_heads_);
  for (std::size_t vector = 0; vector * dim < out.size(); ++vector) {
    fill_normal({.seed = seed_,
                 .field = vector < heads ? Field::kKey : Field::kValue,
                 .layer = layer,
                 .request = request,
                 .token = token,
                 .head = static_cast<int>(vector % heads)},
                dtype_, out.subspan(vector * dim, dim));
  }
}

void InputData::chunk_row(const ChunkRow& row, DType dtype, std::span<float> out) const {
  if (kind_ != DataKind::kRandom) {
    std::fill(out.begin(), out.end(), round_to(dtype, static_cast<float>(row.owner + 1)));
    return;
  }
  fill_normal({.seed = seed_,
               .field = Field::kChunk,
               .layer = row.layer,
               .request = row.request,
               .token = row.token,
               .head = 0},
              dtype, out);
}

}  // namespace dcp
