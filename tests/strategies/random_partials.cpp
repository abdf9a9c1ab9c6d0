#include "tests/strategies/random_partials.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/poison.hpp"

namespace dcp::test {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::int64_t kNumTokens = 5;
constexpr int kPaddedHeads = 3;

HeadStrides strides_of(Storage storage, int num_heads, std::int64_t dim) {
  if (storage == Storage::kHeadPadded) return token_major(num_heads + kPaddedHeads, dim);
  HeadStrides strides = token_major(num_heads, dim);
  if (storage == Storage::kHeadMajor) {
    strides.token = dim;
    strides.head = kNumTokens * dim;
  }
  return strides;
}

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

  bool happens_once_in(unsigned n) { return random_() % n == 0; }
  float normal() { return normal_(random_); }

  // What the ranks' lses of a row and head have in common.
  float centre() {
    constexpr float kCentres[] = {0.0f, 0.0f, 300.0f, -300.0f};
    return kCentres[random_() % 4];
  }

  // Of a rank that counts, of one whose weight vanishes beside it, or nonsense.
  float lse(float centre) {
    switch (random_() % 12) {
      case 0:
        return kNan;
      case 1:
        return kInfinity;
      case 2:
        return -kInfinity;
      case 3:
        return centre - 150.0f;
      default:
        return centre + 2.0f * normal();
    }
  }

  // What stands in the rows of a rank that must not count.
  float stale() {
    constexpr float kStale[] = {kNan, kInfinity, 1e4f};
    return kStale[random_() % 3];
  }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<float> normal_;
};

// Lengths [R] of each rank.
void draw_lengths(PartialsCase& partials, Generator& generate) {
  constexpr std::size_t kEmptyRequest = 2;
  for (RankPartials& rank : partials.ranks) {
    for (std::size_t request = 0; request + 1 < partials.query_start_loc->size(); ++request) {
      const bool is_empty = request == kEmptyRequest || generate.happens_once_in(3);
      rank.seq_lens.push_back(is_empty ? 0 : 7);
    }
  }
}

bool is_masked(const RankPartials& rank, std::int64_t row) {
  constexpr int kRequestOfRow[kNumTokens] = {0, 0, 2, 3, -1};
  const int request = kRequestOfRow[row];
  return request < 0 || rank.seq_lens[static_cast<std::size_t>(request)] == 0;
}

// Ranks that count hold numbers; the others, masked ones with any lse included, hold stale bytes.
void draw_row(PartialsCase& partials, std::int64_t row, int head, Generator& generate) {
  const float centre = generate.centre();
  std::vector<float> counting;  // lse per rank, -inf where it must not count
  for (RankPartials& rank : partials.ranks) {
    const float lse = generate.lse(centre);
    store_element(rank.lse.data(), partials.lse.dtype,
                  static_cast<std::size_t>(partials.lse_strides.offset(row, head)), lse);
    counting.push_back(is_masked(rank, row) || !std::isfinite(lse) ? -kInfinity : lse);
  }
  const float lowest = *std::max_element(counting.begin(), counting.end()) - 100.0f;
  for (std::size_t r = 0; r < counting.size(); ++r) {
    const float stale = generate.stale();
    const bool counts = counting[r] > -kInfinity && counting[r] >= lowest;
    for (int i = 0; i < partials.head_dim; ++i) {
      store_element(partials.ranks[r].out.data(), partials.dtype,
                    static_cast<std::size_t>(partials.out_strides.offset(row, head) + i),
                    counts ? generate.normal() : stale);
    }
  }
}

}  // namespace

PartialsCase random_partials(const PartialsSpec& spec) {
  PartialsCase partials;
  partials.world_size = spec.world_size;
  partials.num_tokens = kNumTokens;
  partials.num_heads = spec.world_size * spec.heads_per_rank;
  partials.head_dim = spec.head_dim;
  partials.dtype = spec.dtype;
  partials.lse = spec.lse;
  partials.out_strides = strides_of(spec.storage, partials.num_heads, spec.head_dim);
  partials.lse_strides = strides_of(spec.storage, partials.num_heads, 1);
  partials.query_start_loc = {0, 2, 2, 3, 4};
  partials.ranks.resize(static_cast<std::size_t>(spec.world_size));
  const auto rows = static_cast<std::size_t>(kNumTokens * (partials.num_heads + kPaddedHeads));
  for (RankPartials& rank : partials.ranks) {
    rank.out.resize(rows * static_cast<std::size_t>(spec.head_dim) * size_bytes(spec.dtype));
    rank.lse.resize(rows * size_bytes(spec.lse.dtype));
    poison(rank.out.data(), rank.out.size());
    poison(rank.lse.data(), rank.lse.size());
  }
  Generator generate(spec.seed);
  draw_lengths(partials, generate);
  for (std::int64_t row = 0; row < kNumTokens; ++row) {
    for (int head = 0; head < partials.num_heads; ++head) draw_row(partials, row, head, generate);
  }
  return partials;
}

}  // namespace dcp::test
