// Kernels that only the benchmark needs.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/dtype.hpp"

namespace dcp {

// Uniform in [-scale, scale), a function of the seed and the index.
void launch_fill_random(void* data, DType dtype, std::int64_t count, float scale,
                        std::uint32_t seed, cudaStream_t stream);

// 16 bytes per thread and pass; `size_bytes` a multiple of 16.
void launch_copy(const void* from, void* to, std::int64_t size_bytes, cudaStream_t stream);

void launch_store_one(float* at, cudaStream_t stream);

}  // namespace dcp
