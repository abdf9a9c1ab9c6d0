#include "runtime/cuda/cuda_device.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>

#include "runtime/cuda/cuda_error.hpp"

namespace dcp {

namespace {

int capability_of(int device) {
  int major = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  return major;
}

bool has_code_for(int device) { return capability_of(device) >= 8; }

}  // namespace

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
  if (!has_code_for(0)) {
    why = "GPU 0 has compute capability " + std::to_string(capability_of(0)) + ".x; 8.0 is needed";
    return false;
  }
  return true;
}

std::vector<int> peer_devices() {
  int num_devices = 1;
  cudaGetDeviceCount(&num_devices);
  const auto reaches = [](int from, int to) {
    int can = 0;
    int is_nvlink = 0;  // atomics of a peer's memory go over nothing else
    cudaDeviceCanAccessPeer(&can, from, to);
    cudaDeviceGetP2PAttribute(&is_nvlink, cudaDevP2PAttrNativeAtomicSupported, from, to);
    return can != 0 && is_nvlink != 0;
  };
  std::vector<int> devices = {0};
  for (int device = 1; device < num_devices; ++device) {
    const bool is_joined = std::all_of(devices.begin(), devices.end(), [&](int other) {
      return reaches(device, other) && reaches(other, device);
    });
    if (is_joined && has_code_for(device)) devices.push_back(device);
  }
  cudaGetLastError();  // so that the next call does not find what was refused here
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
  cudaGetLastError();
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
  const std::string cuda =
      "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  // "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build ..."
  std::ifstream file("/proc/driver/nvidia/version");
  std::string word;
  while (file >> word) {
    const bool is_number = word.find('.') != std::string::npos &&
                           word.find_first_not_of("0123456789.") == std::string::npos;
    if (is_number) return word + ", " + cuda;
  }
  return cuda;
}

}  // namespace dcp
