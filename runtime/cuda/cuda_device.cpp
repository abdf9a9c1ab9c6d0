#include "runtime/cuda/cuda_device.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "runtime/cuda/cuda_error.hpp"

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

std::vector<int> peer_devices() {
  int num_devices = 0;
  check_cuda(cudaGetDeviceCount(&num_devices), "cudaGetDeviceCount");
  const auto reaches = [](int from, int to) {
    int can = 0;
    check_cuda(cudaDeviceCanAccessPeer(&can, from, to), "cudaDeviceCanAccessPeer");
    return can != 0;
  };
  std::vector<int> devices;
  for (int device = 0; device < num_devices; ++device) {
    const bool reaches_all = std::all_of(devices.begin(), devices.end(), [&](int other) {
      return reaches(device, other) && reaches(other, device);
    });
    if (reaches_all) devices.push_back(device);
  }
  return devices;
}

void enable_peer_access(int device, const std::vector<int>& others) {
  check_cuda(cudaSetDevice(device), "cudaSetDevice");
  for (const int other : others) {
    if (other == device) continue;
    const cudaError_t error = cudaDeviceEnablePeerAccess(other, 0);
    if (error != cudaErrorPeerAccessAlreadyEnabled) {
      check_cuda(error, "cudaDeviceEnablePeerAccess");
    } else {
      cudaGetLastError();  // so that the next call does not find it again
    }
  }
}

std::string cuda_devices_text() {
  int num_devices = 0;
  cudaGetDeviceCount(&num_devices);
  std::map<std::string, int> count;
  for (int device = 0; device < num_devices; ++device) {
    cudaDeviceProp properties{};
    const bool is_known = cudaGetDeviceProperties(&properties, device) == cudaSuccess;
    ++count[is_known ? properties.name : "unknown GPU"];
  }
  std::string text;
  for (const auto& [name, number] : count) {
    text += text.empty() ? "" : ", ";
    text += (number == 1 ? "" : std::to_string(number) + " x ") + name;
  }
  return text;
}

std::string cuda_driver_text() {
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess) return "unknown";
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace dcp
