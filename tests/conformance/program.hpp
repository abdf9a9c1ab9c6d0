// Programs of runtime calls as plain data: what the simulator and CUDA are both asked to do.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/collectives.hpp"
#include "runtime/runtime.hpp"

namespace dcp::conformance {

inline constexpr int kNumStreams = 4;
inline constexpr int kNumEvents = 5;
inline constexpr int kNumSources = 3;    // pinned buffers that programs read
inline constexpr int kMaxCalls = 96;     // of a program, so that ids fit a bit set
inline constexpr int kMaxCaptures = 10;  // begun by a program
inline constexpr int kElements = 24;     // fp32 values of a source, a slot and a buffer
inline constexpr std::size_t kSlotBytes = kElements * sizeof(float);

enum class Verb : std::uint8_t {
  kCopy,        // source or slot -> own slot
  kRound,       // the same through the round_rows kernel
  kCollective,  // the same through a collective of the only rank
  kRecord,
  kWait,
  kBegin,
  kEnd,
  kIsCapturing,
  kApiCall,
  kAllocate,
  kFree,
  kInstantiate,
  kLaunch,
  kDestroyExec,
  kDestroyGraph,
  kDrain,  // and new values in the sources
};
inline constexpr int kNumVerbs = static_cast<int>(Verb::kDrain) + 1;

// Every call has a slot of its own in device memory that only it writes, so that what is unordered
// never conflicts. Fields that the verb does not need are ignored.
struct Call {
  Verb verb = Verb::kCopy;
  int id = 0;  // stays when other calls are dropped
  int stream = 0;
  int event = 0;
  int source = 0;        // what an op reads: source -1 - j, or the slot of call `source`
  int buffer = -1;       // the op writes this allocation, a copy brings it to the slot; -1: none
  int ref = 0;           // kFree: the allocating call; of graphs and their launches: the begin
  int communicator = 0;  // one for each lane: collectives of unordered streams must not meet
  CaptureMode mode = CaptureMode::kThreadLocal;
  ApiCall api = ApiCall::kMalloc;
  CallingThread thread = CallingThread::kSame;
  DType dtype = DType::kFp32;
  CollectiveKind collective = CollectiveKind::kAllReduce;
};

inline constexpr int kNumCommunicators = kNumStreams * (1 + kMaxCaptures);

struct Program {
  std::uint64_t seed = 0;
  std::vector<Call> calls;
};

std::string_view name(Verb verb);
std::string_view name(ApiCall call);
std::string text(const Call& call);  // "wait s1 e0"

}  // namespace dcp::conformance
