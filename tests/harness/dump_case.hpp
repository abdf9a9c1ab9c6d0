// A small dump of an engine, whose rows are empty in every way: 4 ranks, requests of 9, 3 and 1
// tokens, of which the first two have two query rows, and one row of padding. Masked rows hold
// finite stale values. Rank 2 has a key of request 1, which row 2 does not see.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/safetensors.hpp"

namespace dcp::test {

struct DumpCase {
  static constexpr int kRanks = 4;
  static constexpr int kRows = 6;
  static constexpr int kHeads = 4;
  static constexpr int kDim = 8;
  static constexpr float kEmpty = -std::numeric_limits<float>::infinity();

  std::string base = "e";
  DType dtype = DType::kBf16;
  std::vector<float> partial_out;  // [N, T, H, D], values of `dtype`
  std::vector<float> partial_lse;  // [N, T, H]
  std::vector<std::int32_t> seq_lens = {3, 1, 1, 2, 1, 0, 2, 1, 0, 2, 0, 0};  // [N, 3]
  std::vector<std::int32_t> query_start_loc = {0, 2, 4, 5};
  std::vector<float> out;  // [T, H, D]
  std::vector<float> lse;  // [T, H]

  DumpCase() {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (int i = 0; i < kRanks * kRows * kHeads * kDim; ++i) {
      partial_out.push_back(round_to(dtype, normal(random)));
    }
    for (int i = 0; i < kRanks * kRows * kHeads; ++i) {
      partial_lse.push_back(1.5f * normal(random) + 1);
    }
  }

  static std::size_t index(int row, int head) {
    return static_cast<std::size_t>(row * kHeads + head);
  }
  static std::size_t index(int rank, int row, int head) { return index(rank * kRows + row, head); }

  int request_of(int row) const {
    int request = 0;
    while (request < 3 && query_start_loc[static_cast<std::size_t>(request) + 1] <= row) ++request;
    return request;
  }
  bool masked_by_request(int rank, int row) const {
    const int request = request_of(row);
    return request == 3 || seq_lens[static_cast<std::size_t>(rank * 3 + request)] == 0;
  }
  bool masked_by_row(int rank, int row) const {
    return masked_by_request(rank, row) || (rank == 2 && row == 2);
  }

  // The bytes of `values` in `stored`.
  static StoredTensor tensor(const std::string& name, std::vector<std::int64_t> shape,
                             std::span<const float> values, DType stored) {
    StoredTensor tensor{.name = name, .dtype = stored_dtype(stored), .shape = std::move(shape)};
    tensor.bytes.resize(values.size() * size_bytes(stored));
    for (std::size_t i = 0; i < values.size(); ++i) {
      store_element(tensor.bytes.data(), stored, i, values[i]);
    }
    return tensor;
  }

  TensorFile file() const {
    TensorFile file;
    file.metadata = {{"lse_base", base}, {"source", "a test"}};
    file.tensors = {tensor("partial_out", {kRanks, kRows, kHeads, kDim}, partial_out, dtype),
                    tensor("partial_lse", {kRanks, kRows, kHeads}, partial_lse, DType::kFp32),
                    make_tensor<std::int32_t>("seq_lens", {kRanks, 3}, seq_lens),
                    make_tensor<std::int32_t>("query_start_loc", {4}, query_start_loc)};
    if (!out.empty()) file.tensors.push_back(tensor("out", {kRows, kHeads, kDim}, out, dtype));
    if (!lse.empty()) file.tensors.push_back(tensor("lse", {kRows, kHeads}, lse, DType::kFp32));
    return file;
  }

  // What one rank of the engine would write: its partials, and its own heads of the result.
  TensorFile file_of_rank(int rank) const {
    const auto part = [&](const auto& all, std::size_t size) {
      return std::span(all).subspan(static_cast<std::size_t>(rank) * size, size);
    };
    TensorFile file;
    file.metadata = {{"lse_base", base}};
    file.tensors = {
        tensor("partial_out", {kRows, kHeads, kDim}, part(partial_out, kRows * kHeads * kDim),
               dtype),
        tensor("partial_lse", {kRows, kHeads}, part(partial_lse, kRows * kHeads), DType::kFp32),
        make_tensor<std::int32_t>("seq_lens", {3}, part(seq_lens, 3)),
        make_tensor<std::int32_t>("query_start_loc", {4}, query_start_loc)};
    std::vector<float> own_out, own_lse;
    for (int row = 0; row < kRows; ++row) {
      const std::size_t at = index(row, rank);  // one head per rank
      own_lse.push_back(lse[at]);
      for (int i = 0; i < kDim; ++i)
        own_out.push_back(out[at * kDim + static_cast<std::size_t>(i)]);
    }
    file.tensors.push_back(tensor("out", {kRows, 1, kDim}, own_out, dtype));
    file.tensors.push_back(tensor("lse", {kRows, 1}, own_lse, DType::kFp32));
    return file;
  }
};

}  // namespace dcp::test
