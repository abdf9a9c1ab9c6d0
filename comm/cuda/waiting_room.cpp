#include "comm/cuda/waiting_room.hpp"

#include <algorithm>
#include <string>

#include "core/error.hpp"

namespace dcp {

namespace {

// Of 256 threads, in half of the registers: whoever is waited for has the other half.
constexpr int kBlocksPerProcessor = 2;

// Resident grids per device are 128 (CUDA programming guide, technical specifications). Beside the
// exchange of a ubatch there may be a collective on its other stream.
constexpr int kWaitingGrids = 64;

}  // namespace

int waiting_blocks(int num_processors, int num_ranks, int num_ubatches) {
  const int num_exchanges = num_ranks * num_ubatches;
  const int num_blocks = kBlocksPerProcessor * num_processors;
  const int most = std::min(num_blocks, kWaitingGrids);
  if (num_exchanges > most) {
    throw StepError("capacity", std::to_string(num_ranks) + " ranks of " +
                                    std::to_string(num_ubatches) +
                                    " ubatches share a GPU on which " + std::to_string(most) +
                                    " exchanges can wait at the same time");
  }
  return num_blocks / num_exchanges;
}

}  // namespace dcp
