// Buffers of one op, twice: in host memory and, at the same offsets, on the GPU. After the host
// body and the kernel ran, all bytes are compared, also those that neither should have touched.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "core/poison.hpp"
#include "kernels/cuda/ops.hpp"
#include "runtime/cuda/cuda_device.hpp"

namespace dcp {

class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() {
    cudaFree(device_);
    cudaFreeHost(fault_);
  }

  // Offset of fresh, poisoned bytes, 256-byte aligned plus `shift`.
  std::size_t add(std::size_t size_bytes, std::size_t shift = 0) {
    const std::size_t offset = (host_.size() + 255) / 256 * 256 + shift;
    const std::size_t begin = host_.size();
    host_.resize(offset + size_bytes + 64);
    poison(host_.data() + begin, host_.size() - begin);
    return offset;
  }

  std::size_t add_values(const std::vector<std::int32_t>& values) {
    const std::size_t offset = add(values.size() * sizeof(std::int32_t));
    std::memcpy(host_.data() + offset, values.data(), values.size() * sizeof(std::int32_t));
    return offset;
  }

  // A word of empty ranks per token, of every kind: all, none, some.
  std::size_t add_empty_ranks(std::int64_t num_tokens) {
    std::vector<std::int32_t> halves;
    for (std::int64_t i = 0; i < 2 * num_tokens; ++i) {
      const auto random = static_cast<std::int32_t>(random_());
      halves.push_back(i < 2 ? -1 : i < 4 ? 0 : random);
    }
    return add_values(halves);
  }

  // Normal values of `dtype`, times `scale`.
  std::size_t add_random(std::size_t count, DType dtype, float scale = 1.0f) {
    const std::size_t offset = add(count * size_bytes(dtype));
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < count; ++i) {
      store_element(host_.data() + offset, dtype, i, scale * normal(random_));
    }
    return offset;
  }

  std::byte* host() { return host_.data(); }

  // Copies the bytes to the GPU, calls `run(base of the GPU's copy, launch)`, and brings them back.
  template <class Run>
  std::vector<std::byte> on_gpu(const Run& run) {
    cudaFree(device_);
    if (fault_ == nullptr) {
      EXPECT_EQ(cudaMallocHost(reinterpret_cast<void**>(&fault_), sizeof(Fault)), cudaSuccess);
    }
    *fault_ = {};
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&device_), host_.size()), cudaSuccess);
    cudaMemcpy(device_, host_.data(), host_.size(), cudaMemcpyHostToDevice);
    run(device_, Launch{.stream = nullptr, .fault = fault_});
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    std::vector<std::byte> bytes(host_.size());
    cudaMemcpy(bytes.data(), device_, bytes.size(), cudaMemcpyDeviceToHost);
    return bytes;
  }

  const Fault& fault() const { return *fault_; }
  const std::vector<std::byte>& host_bytes() const { return host_; }
  std::mt19937& random() { return random_; }

 private:
  std::mt19937 random_{11};
  std::vector<std::byte> host_;
  std::byte* device_ = nullptr;
  Fault* fault_ = nullptr;
};

// Runs the op's host body and its kernel on the same bytes. `params(base)` are the op's params with
// the arena at `base`. Returns the GPU's bytes; the arena holds the host's.
template <class O, class ParamsAt>
std::vector<std::byte> run_both(Arena& arena, const ParamsAt& params) {
  const auto bytes =
      arena.on_gpu([&](std::byte* base, const Launch& at) { launch(params(base), at); });
  O::run(params(arena.host()));
  return bytes;
}

// First byte that differs; -1: none.
inline std::ptrdiff_t first_difference(const std::vector<std::byte>& a,
                                       const std::vector<std::byte>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) return static_cast<std::ptrdiff_t>(i);
  }
  return -1;
}

// Tests of kernels need a GPU; without one they are skipped, and say so.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!find_cuda_device(why)) GTEST_SKIP() << why;
  }
};

}  // namespace dcp
