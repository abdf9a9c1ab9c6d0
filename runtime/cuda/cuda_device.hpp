// The GPUs that a process may use.
#pragma once

#include <string>

namespace dcp {

// Whether a GPU is there that this build has code for; `why` says what is missing. All kernels are
// loaded at once: loading one later waits for the GPU, which may wait for the rank that loads.
bool find_cuda_device(std::string& why);

// "NVIDIA H200, compute capability 9.0, driver 13.0": what a report says of the machine.
std::string cuda_device_text(int device);

}  // namespace dcp
