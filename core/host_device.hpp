// Marks arithmetic that is written once and compiled for the host and, under nvcc, for the GPU.
#pragma once

#ifdef __CUDACC__
#define DCP_HOST_DEVICE __host__ __device__
#else
#define DCP_HOST_DEVICE
#endif
