// Plays a program on the only rank of a world, through Runtime and Collectives alone.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/world.hpp"
#include "tests/conformance/order.hpp"

namespace dcp::conformance {

// What a program showed: an answer per call, and at the end the bytes of all slots.
struct Transcript {
  std::vector<std::string> answers;
  std::vector<std::byte> slots;  // [kMaxCalls, kSlotBytes]
};

class Player {
 public:
  // The world has one rank and kNumCommunicators communicators.
  explicit Player(std::unique_ptr<World> world);

  // Never throws: whatever the call throws is its answer.
  Answer play(const Call& call);

  // Ends captures that are in progress, drains, and reads the slots.
  std::vector<std::byte> finish();

 private:
  std::string dispatch(Rank& rank, const Call& call);
  void enqueue_op(Rank& rank, const Call& call);
  void set_sources();
  std::byte* slot(int id) const { return slots_.data + static_cast<std::size_t>(id) * kSlotBytes; }

  std::unique_ptr<World> world_;
  Runtime* runtime_ = nullptr;  // of the rank
  std::vector<Stream> streams_;
  std::vector<Event> events_;
  std::vector<Buffer> sources_;
  Buffer slots_;
  std::map<int, Buffer> buffers_;  // by the id of the allocation
  std::map<int, int> begin_of_;    // stream -> id of the last begin
  std::map<int, Graph> graphs_;    // by the id of the begin
  std::map<int, GraphExec> execs_;
  int num_drains_ = 0;
};

}  // namespace dcp::conformance
