// Lets the streams of all ranks wait for each other without a kernel that waits: every rank records
// an event, the ranks' threads meet, and every rank's stream waits for all events. For work that is
// not captured: there a kernel that waits may keep the work of others from being fetched, since
// streams share the GPU's queues.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace dcp {

class StreamMeeting {
 public:
  // `devices`: the GPU of each rank.
  StreamMeeting(std::span<const int> devices, std::chrono::nanoseconds wait_bound);
  StreamMeeting(const StreamMeeting&) = delete;
  StreamMeeting& operator=(const StreamMeeting&) = delete;
  ~StreamMeeting();

  // Called on each rank's thread. What `stream` gets later comes after what the streams of all
  // ranks got before. Failure of the kind where a rank does not come in time, or was refused;
  // `what` is where the ranks meet.
  void meet(int rank, cudaStream_t stream, const char* kind, const std::string& what);

  void abandon();  // whoever waits, or comes later, gives up
  void reset();    // after abandon(), when all threads are back

 private:
  std::chrono::nanoseconds wait_bound_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::vector<cudaEvent_t> events_[2];  // of alternate meetings
  int num_here_ = 0;
  unsigned meeting_ = 0;
  bool is_abandoned_ = false;
};

}  // namespace dcp
