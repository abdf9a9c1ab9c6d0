// Partials of all ranks, taken through both ways that the ops combine them, and the combine of the
// numeric contract in float64.
#pragma once

#include <random>

#include "core/lse.hpp"
#include "core/packed_rows.hpp"
#include "kernels/a2a_combine.hpp"
#include "kernels/a2a_pack.hpp"
#include "kernels/lse_correct.hpp"
#include "tests/kernels/tensor.hpp"

namespace dcp::test {

struct Partials {
  int world_size;
  Shape shape;
  DType dtype = DType::kFp32;
  LseBase base = LseBase::kE;
  std::vector<Rows> out;  // per rank [T, H, D]
  std::vector<Rows> lse;  // per rank [T, H] fp32

  Partials(int num_ranks, const Shape& s, DType type, LseBase lse_base = LseBase::kE)
      : world_size(num_ranks), shape(s), dtype(type), base(lse_base) {
    for (int rank = 0; rank < num_ranks; ++rank) {
      out.emplace_back(type, s);
      lse.emplace_back(DType::kFp32, Shape{s.num_tokens, s.num_heads, 1});
    }
  }

  // The same value in every element, and the same lse in every row, of one rank.
  void fill(int rank, float value, float lse_value) {
    for (int t = 0; t < shape.num_tokens; ++t) {
      for (int h = 0; h < shape.num_heads; ++h) {
        lse[rank].set(t, h, 0, lse_value);
        for (int i = 0; i < shape.dim; ++i) out[rank].set(t, h, i, value);
      }
    }
  }

  void randomise(std::mt19937& random, float lse_spread) {
    std::normal_distribution<float> normal;
    for (int rank = 0; rank < world_size; ++rank) {
      for (int t = 0; t < shape.num_tokens; ++t) {
        for (int h = 0; h < shape.num_heads; ++h) {
          lse[rank].set(t, h, 0, lse_spread * normal(random));
          for (int i = 0; i < shape.dim; ++i) out[rank].set(t, h, i, normal(random));
        }
      }
    }
  }
};

// All ranks' results side by side: [T, H, D] and [T, H].
struct Combined {
  Rows out;
  Rows lse;
};

enum class Way { kA2aInterleaved, kA2aSplit, kCorrectAndAdd };

// Pack on every rank, exchange the parts, combine on every rank.
inline Combined combine_by_a2a(Partials& p, A2aLayout layout) {
  const int heads = p.shape.num_heads / p.world_size;
  const PackedRows packed{p.shape.num_tokens, p.world_size, heads, p.shape.dim, p.dtype, layout};
  const auto part = static_cast<std::size_t>(packed.elements_per_peer()) * size_bytes(p.dtype);
  std::vector<std::vector<std::byte>> send(p.world_size,
                                           std::vector<std::byte>(part * p.world_size));
  for (int rank = 0; rank < p.world_size; ++rank) {
    A2aPack::Params params{};
    params.out = p.out[rank].view();
    params.lse = p.lse[rank].view();
    params.send = send[rank].data();
    params.num_tokens = p.shape.num_tokens;
    params.num_heads = p.shape.num_heads;
    params.head_dim = p.shape.dim;
    params.world_size = p.world_size;
    params.layout = layout;
    A2aPack::run(params);
  }
  Combined all{Rows(p.dtype, p.shape),
               Rows(DType::kFp32, {p.shape.num_tokens, p.shape.num_heads, 1})};
  for (int rank = 0; rank < p.world_size; ++rank) {
    std::vector<std::byte> recv;
    for (const auto& from : send) {
      recv.insert(recv.end(), from.begin() + part * rank, from.begin() + part * (rank + 1));
    }
    std::vector<float> lse(static_cast<std::size_t>(p.shape.num_tokens * heads), kNan);
    A2aCombine::Params params{};
    params.recv = recv.data();
    params.out = all.out.view();
    params.out.data =
        static_cast<std::byte*>(params.out.data) + rank * heads * p.shape.dim * size_bytes(p.dtype);
    params.lse = lse.data();
    params.num_tokens = p.shape.num_tokens;
    params.heads_per_rank = heads;
    params.head_dim = p.shape.dim;
    params.world_size = p.world_size;
    params.base = p.base;
    params.layout = layout;
    A2aCombine::run(params);
    for (int t = 0; t < p.shape.num_tokens; ++t) {
      for (int h = 0; h < heads; ++h) all.lse.set(t, rank * heads + h, 0, lse[t * heads + h]);
    }
  }
  return all;
}

// Scale every rank's partial in fp32, and add them in rank order.
inline Combined combine_by_correct(Partials& p) {
  std::vector<float> lses;
  for (const Rows& rank : p.lse) {
    for (int t = 0; t < p.shape.num_tokens; ++t) {
      for (int h = 0; h < p.shape.num_heads; ++h) lses.push_back(rank.get(t, h));
    }
  }
  Combined all{Rows(p.dtype, p.shape),
               Rows(DType::kFp32, {p.shape.num_tokens, p.shape.num_heads, 1})};
  Rows sum(DType::kFp32, p.shape);
  const int count = p.shape.num_tokens * p.shape.num_heads * p.shape.dim;
  for (int rank = 0; rank < p.world_size; ++rank) {
    Rows scaled(DType::kFp32, p.shape);
    LseCorrect::Params params{};
    params.lses = lses.data();
    params.out = p.out[rank].view();
    params.scaled = scaled.view();
    params.lse = static_cast<float*>(all.lse.storage.data());
    params.num_tokens = p.shape.num_tokens;
    params.num_heads = p.shape.num_heads;
    params.head_dim = p.shape.dim;
    params.world_size = p.world_size;
    params.rank = rank;
    params.num_lse_heads = p.shape.num_heads;
    params.base = p.base;
    LseCorrect::run(params);
    for (int i = 0; i < count; ++i) {
      sum.storage.set(
          i, rank == 0 ? scaled.storage.get(i) : sum.storage.get(i) + scaled.storage.get(i));
    }
  }
  for (int i = 0; i < count; ++i) all.out.storage.set(i, sum.storage.get(i));
  return all;
}

inline Combined combine(Partials& p, Way way) {
  if (way == Way::kCorrectAndAdd) return combine_by_correct(p);
  return combine_by_a2a(p, way == Way::kA2aSplit ? A2aLayout::kSplit : A2aLayout::kInterleaved);
}

// The contract, in float64: value, and S = sum of w/s * |out|.
struct Expected {
  double out;
  double magnitude;
  double lse;
};

inline Expected expected(const Partials& p, int token, int head, int element) {
  const double log2_base = p.base == LseBase::kTwo ? 1.0 : 1.0 / std::log(2.0);
  std::vector<float> lses;
  for (const Rows& rank : p.lse) {
    const float lse = rank.get(token, head);
    lses.push_back(std::isnan(lse) || lse == kInfinity ? -kInfinity : lse);
  }
  const float max = *std::max_element(lses.begin(), lses.end());
  if (max == -kInfinity) return {0.0, 0.0, -kInfinity};
  Expected result{};
  double sum = 0.0;
  for (int pass = 0; pass < 2; ++pass) {  // first the sum of the weights, then the rows
    for (int rank = 0; rank < p.world_size; ++rank) {
      const double exponent = static_cast<double>(lses[rank] - max) * log2_base;
      if (exponent < -126) continue;
      const double weight =
          std::exp2((static_cast<double>(lses[rank]) - static_cast<double>(max)) * log2_base);
      if (pass == 0) {
        sum += weight;
        continue;
      }
      const double term = weight / sum * static_cast<double>(p.out[rank].get(token, head, element));
      result.out += term;
      result.magnitude += std::abs(term);
    }
  }
  result.lse = static_cast<double>(max) + std::log2(sum) / log2_base;
  return result;
}

}  // namespace dcp::test
