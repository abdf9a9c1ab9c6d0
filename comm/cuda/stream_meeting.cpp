#include "comm/cuda/stream_meeting.hpp"

#include <string>

#include "core/error.hpp"
#include "runtime/cuda/cuda_error.hpp"

namespace dcp {

// An event is recorded by streams of the GPU that it was made on.
StreamMeeting::StreamMeeting(std::span<const int> devices, std::chrono::nanoseconds wait_bound)
    : wait_bound_(wait_bound) {
  for (const int device : devices) {
    check_cuda(cudaSetDevice(device), "cudaSetDevice");
    for (auto& events : events_) {
      check_cuda(cudaEventCreateWithFlags(&events.emplace_back(), cudaEventDisableTiming),
                 "cudaEventCreate");
    }
  }
}

StreamMeeting::~StreamMeeting() {
  for (const auto& events : events_) {
    for (const cudaEvent_t event : events) cudaEventDestroy(event);
  }
}

void StreamMeeting::meet(int rank, cudaStream_t stream, const char* kind, const std::string& what) {
  std::unique_lock lock(mutex_);
  // A rank can be one meeting ahead of the others, not two: two sets of events are enough.
  const unsigned meeting = meeting_;
  const auto& events = events_[meeting % 2];
  check_cuda(cudaEventRecord(events[static_cast<std::size_t>(rank)], stream), "cudaEventRecord");
  if (++num_here_ == static_cast<int>(events.size())) {
    num_here_ = 0;
    ++meeting_;
    all_here_.notify_all();
  }
  const bool came =
      all_here_.wait_for(lock, wait_bound_, [&] { return meeting_ != meeting || is_abandoned_; });
  if (!came || meeting_ == meeting) {
    throw Failure(kind, rank,
                  "rank " + std::to_string(rank) + " waits in " + what + " for " +
                      std::to_string(static_cast<int>(events.size()) - num_here_) +
                      " of the ranks, which do not come");
  }
  lock.unlock();
  for (const cudaEvent_t event : events) {
    check_cuda(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
  }
}

void StreamMeeting::abandon() {
  const std::lock_guard lock(mutex_);
  is_abandoned_ = true;
  all_here_.notify_all();
}

void StreamMeeting::reset() {
  const std::lock_guard lock(mutex_);
  is_abandoned_ = false;
  num_here_ = 0;
}

}  // namespace dcp
