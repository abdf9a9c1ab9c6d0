// What the engine tells those who look at its memory and its graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/handles.hpp"
#include "kernels/op.hpp"

namespace dcp {

// What a buffer is for.
enum class BufferUse : std::uint8_t {
  kInput,     // loaded before every step
  kMetadata,  // the same, derived from the batch
  kState,     // outlives steps: the cache
  kScratch,   // holds nothing between steps
  kOutput,    // read after a step
  kHeld,      // allocated by a step of the scenario, which keeps it
};

struct NamedBuffer {
  std::string name;
  int ubatch;  // -1: of all
  BufferUse use;
  Buffer buffer;
};

// An op as the plan enqueues it.
struct PlannedOp {
  std::string name;
  std::string stream;
  std::vector<std::byte> params;  // none of a collective
  std::vector<Access> accesses;
  bool is_collective = false;
  const void* handle = nullptr;  // in the params, and neither a value nor memory
};

// A metadata buffer of a ubatch against the batch that was loaded into it.
struct MetadataArray {
  std::string name;
  int ubatch;
  std::vector<std::int64_t> expected;  // tail included
  std::vector<std::int64_t> found;
  std::size_t batch_size;  // entries before the tail
};

}  // namespace dcp
