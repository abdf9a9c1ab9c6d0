// What the first line of a run says of where it runs.
#pragma once

#include <string>

#include "comm/make_world.hpp"

namespace dcp {

// "host backend", "cuda backend, comm nccl 2.28.3, 2 x NVIDIA H200".
std::string backend_text(const BackendChoice& choice);

}  // namespace dcp
