// What is ordered before what in a program, so that no call reads what another may be writing. It
// follows the answers of the runtime that plays the program and knows no rule of capture itself.
#pragma once

#include <array>
#include <bitset>
#include <map>
#include <vector>

#include "tests/conformance/program.hpp"

namespace dcp::conformance {

// What a call returned.
struct Answer {
  int code = 0;  // 0: done; an error's number; -1: an error of another kind than ApiError
  std::string text;
  bool ok() const { return code == 0; }
};

class Order {
 public:
  // Whether the call has what it refers to, and reads only what is ordered before it.
  bool allowed(const Call& call) const;

  // Sets what follows from where the call stands: its communicator.
  void complete(Call& call) const;

  void happened(const Call& call, const Answer& answer);

  // What calls may refer to here.
  std::vector<int> readable_slots(int stream) const;
  std::vector<int> usable_buffers(int stream) const;
  std::vector<int> freeable_buffers() const;
  std::vector<int> graphs_without_exec() const;
  std::vector<int> execs() const;
  std::vector<int> captures() const { return captures_; }
  std::vector<int> streams_of(int capture) const;
  int origin_of(int capture) const { return graphs_.at(capture).origin; }
  // The event was recorded where the stream may wait for it, as far as captures go.
  bool is_plain_wait(int stream, int event) const;

 private:
  using Calls = std::bitset<kMaxCalls>;  // by id

  struct StreamState {
    Calls before;      // eager calls that the stream's next eager call comes after
    int capture = -1;  // id of the begin
    Calls nodes;       // as `before`, of the capture
  };
  struct EventState {
    int capture = -1;
    bool recorded = false;
    Calls calls;
  };
  struct BufferState {
    int pool = -1;  // capture that owns it
    int capture = -1;
    int stream = -1;  // its lane: only calls of this capture and stream use it; -1: none does
    bool live = true;
  };
  struct GraphState {
    int number = 0;
    int origin = 0;
    bool live = false;
    bool has_exec = false;
  };
  struct Launch {
    int graph;
    int interval;
  };

  bool can_read(int stream, int source) const;
  void allocate(const Call& call);
  void wait(const Call& call);
  void end(const Call& call, const Answer& answer);
  void leave(int capture);
  void synchronize(const Call& call);

  std::array<StreamState, kNumStreams> streams_;
  std::array<EventState, kNumEvents> events_;
  std::map<int, BufferState> buffers_;  // by the id of the allocation
  std::map<int, GraphState> graphs_;    // by the id of the begin
  std::map<int, Launch> launches_;
  std::map<int, int> capture_of_op_;  // of ops that were accepted; -1: eager
  std::vector<int> captures_;         // in progress, the latest last
  Calls waited_for_;                  // by the host: before all that follows
  int interval_ = 0;                  // number of drains: sources keep their values in between
};

}  // namespace dcp::conformance
