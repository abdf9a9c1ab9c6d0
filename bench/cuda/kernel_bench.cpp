#include "bench/kernel_bench.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

#include "bench/cuda/bench_kernels.hpp"
#include "bench/cuda/graph_timer.hpp"
#include "core/error.hpp"
#include "core/packed_rows.hpp"
#include "kernels/cuda/ops.hpp"
#include "runtime/cuda/cuda_device.hpp"
#include "runtime/cuda/cuda_error.hpp"

namespace dcp {

namespace {

constexpr int kLaunches = 200;
constexpr float kLseScale = 5.0f;

class DeviceBytes {
 public:
  explicit DeviceBytes(std::int64_t size_bytes) {
    check_cuda(cudaMalloc(&data_, static_cast<std::size_t>(std::max<std::int64_t>(1, size_bytes))),
               "cudaMalloc");
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  ~DeviceBytes() { cudaFree(data_); }

  template <class T = void>
  T* get() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
};

struct Sets {
  int count;
  std::string level;
};

Sets sets_for(double size_bytes) {
  int l2_bytes = 0;
  check_cuda(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, 0),
             "cudaDeviceGetAttribute");
  if (size_bytes * 8 < l2_bytes) return {2, "l2"};
  return {std::max(2, static_cast<int>(std::ceil(4.0 * l2_bytes / size_bytes))), "hbm"};
}

// The buffers of one launch.
struct BufferSet {
  BufferSet(std::int64_t rows, const KernelCase& test, GraphTimer& timer, std::uint32_t seed)
      : out(rows * test.head_dim * element(test)),
        scaled(rows * test.head_dim * element(test)),
        lse(rows * 4),
        masked(rows * 4),
        lses(rows * test.world_size * 4),
        packed(rows * (test.head_dim + lse_lanes(test.dtype)) * element(test)),
        combined(rows * test.head_dim * element(test) / test.world_size),
        combined_lse(rows * 4) {
    const cudaStream_t stream = timer.stream();
    launch_fill_random(out.get(), test.dtype, rows * test.head_dim, 1.0f, seed, stream);
    launch_fill_random(lse.get(), DType::kFp32, rows, kLseScale, seed + 1, stream);
    launch_fill_random(lses.get(), DType::kFp32, rows * test.world_size, kLseScale, seed + 2,
                       stream);
  }
  static std::int64_t element(const KernelCase& test) {
    return static_cast<std::int64_t>(size_bytes(test.dtype));
  }

  DeviceBytes out, scaled, lse, masked, lses, packed, combined, combined_lse;
};

class KernelBench {
 public:
  KernelBench(const KernelBenchOptions& options, GraphTimer& timer, const KernelCase& test,
              std::int64_t num_tokens)
      : options_(options),
        timer_(timer),
        test_(test),
        num_tokens_(num_tokens),
        empty_ranks_(num_tokens * 8) {
    upload(empty_ranks_, std::vector<std::int32_t>(static_cast<std::size_t>(2 * num_tokens), 0));
  }

  void run() {
    const double rows = static_cast<double>(num_tokens_) * test_.num_heads;
    const double row = test_.head_dim * static_cast<double>(size_bytes(test_.dtype));
    const double words = 8.0 * static_cast<double>(num_tokens_);
    for (const auto layout : {A2aLayout::kInterleaved, A2aLayout::kSplit}) {
      const std::string name = layout == A2aLayout::kSplit ? "split" : "interleaved";
      time("pack", name, 2 * rows * (row + 4) + words,
           [&](const BufferSet& set, const Launch& at) { launch(pack(set, layout), at); });
      time("combine", name, rows * (1 + 1.0 / test_.world_size) * (row + 4),
           [&](const BufferSet& set, const Launch& at) { launch(combine(set, layout), at); });
    }
    time("mask", "", 8 * rows + words,
         [&](const BufferSet& set, const Launch& at) { launch(mask(set), at); });
    time("correct", "", 2 * rows * row + 4 * rows * (test_.world_size + 1) + words,
         [&](const BufferSet& set, const Launch& at) { launch(correct(set), at); });
  }

 private:
  using LaunchSet = std::function<void(const BufferSet&, const Launch&)>;

  static void upload(const DeviceBytes& to, const std::vector<std::int32_t>& values) {
    check_cuda(
        cudaMemcpy(to.get(), values.data(), std::span(values).size_bytes(), cudaMemcpyHostToDevice),
        "cudaMemcpy");
  }

  void time(const std::string& name, const std::string& layout, double bytes,
            const LaunchSet& launch_set) {
    const Sets wanted = sets_for(bytes);
    BenchRecord record{.name = name,
                       .layout = layout,
                       .dtype = std::string(dcp::name(test_.dtype)),
                       .world_size = test_.world_size,
                       .num_heads = test_.num_heads,
                       .head_dim = test_.head_dim,
                       .num_tokens = num_tokens_,
                       .level = wanted.level,
                       .size_bytes = bytes};
    if (!options_.wants(record.label())) return;
    std::vector<std::unique_ptr<BufferSet>> sets;
    const std::int64_t rows = num_tokens_ * test_.num_heads;
    for (int i = 0; i < wanted.count; ++i) {
      sets.push_back(std::make_unique<BufferSet>(rows, test_, timer_, 3 * i));
      if (name == "combine") {  // what a pack leaves: random rows and their lses
        const auto layout_used = layout == "split" ? A2aLayout::kSplit : A2aLayout::kInterleaved;
        launch(pack(*sets.back(), layout_used), {timer_.stream(), nullptr});
      }
    }
    record.time_us = timer_.median_us(
        [&](cudaStream_t stream, int i) {
          launch_set(*sets[static_cast<std::size_t>(i)], {stream, nullptr});
        },
        wanted.count, kLaunches);
    options_.report(record);
  }

  HeadRows rows(const DeviceBytes& data, int heads) const {
    return {data.get(), token_major(heads, test_.head_dim), test_.dtype};
  }
  ConstHeadRows lse(const DeviceBytes& data) const {
    return {data.get(), token_major(test_.num_heads, 1), DType::kFp32};
  }

  A2aPack::Params pack(const BufferSet& set, A2aLayout layout) const {
    return {.out = rows(set.out, test_.num_heads),
            .lse = lse(set.lse),
            .send = set.packed.get(),
            .empty = {empty_ranks_.get<std::uint64_t>(), test_.world_size - 1},
            .num_tokens = num_tokens_,
            .num_heads = test_.num_heads,
            .head_dim = test_.head_dim,
            .world_size = test_.world_size,
            .layout = layout};
  }
  A2aCombine::Params combine(const BufferSet& set, A2aLayout layout) const {
    const int heads = test_.num_heads / test_.world_size;
    return {.recv = set.packed.get(),
            .out = rows(set.combined, heads),
            .lse = set.combined_lse.get<float>(),
            .num_tokens = num_tokens_,
            .heads_per_rank = heads,
            .head_dim = test_.head_dim,
            .world_size = test_.world_size,
            .base = LseBase::kE,
            .layout = layout};
  }
  EmptyShardMask::Params mask(const BufferSet& set) const {
    return {.lse = lse(set.lse),
            .masked = set.masked.get<float>(),
            .empty = {empty_ranks_.get<std::uint64_t>(), test_.world_size - 1},
            .num_tokens = num_tokens_,
            .num_heads = test_.num_heads};
  }
  LseCorrect::Params correct(const BufferSet& set) const {
    return {.lses = set.lses.get<float>(),
            .empty_ranks = empty_ranks_.get<std::uint64_t>(),
            .out = rows(set.out, test_.num_heads),
            .scaled = rows(set.scaled, test_.num_heads),
            .lse = set.combined_lse.get<float>(),
            .num_tokens = num_tokens_,
            .num_heads = test_.num_heads,
            .head_dim = test_.head_dim,
            .world_size = test_.world_size,
            .rank = test_.world_size - 1,
            .first_lse_head = 0,
            .num_lse_heads = test_.num_heads,
            .base = LseBase::kE};
  }

  const KernelBenchOptions& options_;
  GraphTimer& timer_;
  const KernelCase& test_;
  std::int64_t num_tokens_;
  DeviceBytes empty_ranks_;  // none is
};

void bench_ceilings(const KernelBenchOptions& options, GraphTimer& timer) {
  constexpr std::int64_t kGib = std::int64_t{1} << 30;
  const DeviceBytes from(kGib);
  const DeviceBytes to(kGib);
  launch_fill_random(from.get(), DType::kFp32, kGib / 4, 1.0f, 1, timer.stream());
  const double copy_us = timer.median_us(
      [&](cudaStream_t stream, int) { launch_copy(from.get(), to.get(), kGib, stream); }, 1, 4);
  BenchRecord copy;
  copy.name = "copy_kernel";
  copy.level = "hbm";
  copy.time_us = copy_us;
  copy.size_bytes = 2.0 * kGib;
  options.report(copy);
  BenchRecord empty;
  empty.name = "store_one_element";
  empty.level = "l2";
  empty.time_us = timer.median_us(
      [&](cudaStream_t stream, int) { launch_store_one(to.get<float>(), stream); }, 1, kLaunches);
  empty.size_bytes = 4;
  options.report(empty);
}

}  // namespace

void bench_kernels(const KernelBenchOptions& options) {
  std::string why;
  if (!find_cuda_device(why)) throw StepError("backend_unavailable", why);
  GraphTimer timer;
  bench_ceilings(options, timer);
  for (const KernelCase& test : options.cases) {
    for (const std::int64_t num_tokens : options.num_tokens) {
      KernelBench(options, timer, test, num_tokens).run();
    }
  }
}

}  // namespace dcp
