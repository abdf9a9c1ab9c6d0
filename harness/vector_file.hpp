// Stored vectors: partials of all ranks, the right result in float64, and what the seed's kernels
// made of the partials. A JSON object with `cases`, a list of objects; `*_bits` are raw IEEE bits
// as unsigned integers, row-major, a list per rank where the shape starts with [N]:
//   name, world_size N <= 64, num_tokens T, num_heads H, head_dim D
//   dtype (fp16 | bf16 | fp32), lse_base (e | 2)
//   seq_lens [N][R] LOCAL lengths, query_start_loc [R + 1]; both null: no row is masked
//   partial_out_bits [N][T*H*D] in dtype, partial_lse_bits [N][T*H] fp32
//   truth_out [T*H*D], truth_lse [T*H]: numbers, "inf", "-inf", null (NaN)
//   and, where known, what the seed made of it: seed_send_bits [N][N*T*h*(D + lanes)],
//   seed_a2a_out_bits [N][T*h*D], seed_a2a_lse_bits [N][T*h], seed_ag_lse_bits [T*H],
//   seed_corrected_out_bits [N][T*H*D]
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "harness/partials_runner.hpp"

namespace dcp {

// What the seed stored; empty where the file does not have it.
struct SeedResults {
  std::vector<std::vector<std::byte>> send;           // [N] of [N, T, h, D + lanes]
  std::vector<std::vector<std::byte>> a2a_out;        // [N] of [T, h, D]
  std::vector<std::vector<float>> a2a_lse;            // [N] of [T, h]
  std::vector<float> ag_lse;                          // [T, H]
  std::vector<std::vector<std::byte>> corrected_out;  // [N] of [T, H, D]: each rank's scaled share
};

struct VectorCase {
  std::string name;
  PartialsCase partials;          // contiguous [T, H, D] and [T, H]
  std::vector<double> truth_out;  // [T, H, D]; NaN where the file has null
  std::vector<double> truth_lse;  // [T, H]
  SeedResults seed;
};

struct VectorFile {
  std::string source;  // who made it
  std::vector<VectorCase> cases;
};

// Throws InputError with line and column, or with the JSON pointer of what is wrong.
VectorFile read_vector_file(const std::string& path);

// The same for text that is in memory; `path` is only for messages.
VectorFile parse_vector_file(const std::string& path, std::string_view text);

}  // namespace dcp
