#include "runtime/cuda/cuda_device.hpp"

#include <cuda_runtime_api.h>

#include <cstdlib>

namespace dcp {

bool find_cuda_device(std::string& why) {
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);  // streams that never wait for each other
  int num_devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&num_devices); error != cudaSuccess) {
    cudaGetLastError();
    why = std::string("no GPU can be used: ") + cudaGetErrorString(error);
    return false;
  }
  if (num_devices == 0) {
    why = "no GPU is there";
    return false;
  }
  int major = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  if (major < 8) {
    why = "GPU 0 has compute capability " + std::to_string(major) + ".x; 8.0 is needed";
    return false;
  }
  return true;
}

std::string cuda_device_text(int device) {
  cudaDeviceProp properties{};
  int driver = 0;
  if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) return "unknown GPU";
  cudaDriverGetVersion(&driver);
  return std::string(properties.name) + ", compute capability " + std::to_string(properties.major) +
         "." + std::to_string(properties.minor) + ", driver " + std::to_string(driver / 1000) +
         "." + std::to_string(driver % 1000 / 10);
}

}  // namespace dcp
