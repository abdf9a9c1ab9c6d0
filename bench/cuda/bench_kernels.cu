#include "bench/cuda/bench_kernels.hpp"
#include "kernels/cuda/rows.cuh"

namespace dcp {

namespace {

__device__ std::uint32_t mixed(std::uint32_t x) {  // lowbias32
  x = (x ^ (x >> 16)) * 0x7FEB352Du;
  x = (x ^ (x >> 15)) * 0x846CA68Bu;
  return x ^ (x >> 16);
}

__global__ void fill_random(HeadRows rows, std::int64_t count, float scale, std::uint32_t seed) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const auto bits = mixed(static_cast<std::uint32_t>(i) + mixed(seed)) >> 8;
  store_value(rows, i, scale * (static_cast<float>(bits) * 0x1p-23f - 1.0f));
}

__global__ void copy(const uint4* from, uint4* to, std::int64_t count) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    to[i] = from[i];
  }
}

__global__ void store_one(float* at) { *at = 1.0f; }

}  // namespace

void launch_fill_random(void* data, DType dtype, std::int64_t count, float scale,
                        std::uint32_t seed, cudaStream_t stream) {
  constexpr int kThreads = 256;
  fill_random<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(
      {.data = data, .strides = {}, .dtype = dtype}, count, scale, seed);
}

void launch_copy(const void* from, void* to, std::int64_t size_bytes, cudaStream_t stream) {
  constexpr int kThreads = 512;
  const std::int64_t count = size_bytes / kVector;
  copy<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(static_cast<const uint4*>(from),
                                                             static_cast<uint4*>(to), count);
}

void launch_store_one(float* at, cudaStream_t stream) { store_one<<<1, 1, 0, stream>>>(at); }

}  // namespace dcp
