// Times the combine kernels on a GPU.
//
// Method: one CUDA graph holds about 200 launches of a kernel in a row; the time is the median of
// 20 back-to-back replays, divided by the number of launches. Launches rotate over sets of buffers,
// without a flush: a launch that moves at least 1/8 of the L2 cache rotates over sets that together
// move at least 4 times the L2 ("hbm"), a smaller one over 2 sets ("l2"), as in a decode step,
// where attention has just written its inputs. Data are random, no shard is empty, one token per
// request. The seed's benchmark has the same rules. Kernels that are launched early overlap with
// the one before them, which is the same here and lets them come; in a step it is so only behind
// attention.
//
// Bytes of N ranks, T tokens, H heads, h = H/N, D head dim, e bytes per element:
//   pack     2 T H (D e + 4) + 4 (2T + 1)      mask fused
//   combine  T (H + h) (D e + 4)               lse returned
//   mask     8 T H + 4 (2T + 1)
//   correct  2 T H D e + 4 T H (N + 1) + 8 T   mask folded in
#pragma once

#include <functional>
#include <vector>

#include "bench/bench_record.hpp"
#include "core/dtype.hpp"

namespace dcp {

struct KernelCase {
  int world_size;
  int num_heads;
  int head_dim;
  DType dtype;
};

struct KernelBenchOptions {
  std::vector<KernelCase> cases;
  std::vector<std::int64_t> num_tokens;
  std::function<bool(const std::string& label)> wants;
  std::function<void(const BenchRecord&)> report;  // called for each, as it is measured
};

// The cases that the seed's benchmark has too.
std::vector<KernelCase> default_kernel_cases();
std::vector<std::int64_t> default_token_counts();

// Ceilings of the run first: a copy kernel over 1 GiB as a graph node, and a kernel that stores one
// element. StepError backend_unavailable in a build without CUDA.
void bench_kernels(const KernelBenchOptions& options);

}  // namespace dcp
