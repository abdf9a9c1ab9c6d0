// The GPUs that a process may use.
#pragma once

#include <string>
#include <vector>

namespace dcp {

// Whether a GPU is there that this build has code for; `why` says what is missing. All kernels are
// loaded at once: loading one later waits for the GPU, which may wait for the rank that loads.
bool find_cuda_device(std::string& why);

// GPU 0, and those after it that this build has code for and that NVLink joins to all of these:
// each can address the others' memory, and a store of 16 bytes gets there whole. Where the driver
// does not say so, they do not.
std::vector<int> peer_devices();

// Lets kernels of GPU `device` address what cudaMalloc gave, or will give, on the others. Makes
// `device` the calling thread's.
void enable_peer_access(int device, const std::vector<int>& others);

// "NVIDIA H200", or "2 x NVIDIA H200" and so on: all that the process may use.
std::string cuda_devices_text();

// "580.159.04, CUDA 13.0": the driver, where the system tells its version, and the newest CUDA that
// it supports.
std::string cuda_driver_text();

}  // namespace dcp
