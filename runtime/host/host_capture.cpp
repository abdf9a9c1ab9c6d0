// The capture half of HostRuntime. Every rule here is one that tests/data/capture_rules.txt holds
// as measured on a GPU.
#include <algorithm>
#include <cassert>

#include "runtime/host/host_runtime.hpp"

namespace dcp {

void HostRuntime::begin_capture(Stream stream, CaptureMode mode) {
  StreamState& origin = state(stream);
  if (origin.capture != nullptr) {
    throw ApiError(ApiErrorCode::kIllegalState, "cudaStreamBeginCapture",
                   "stream " + origin.name + " is capturing already");
  }
  auto capture = std::make_shared<Capture>();
  capture->mode = mode;
  capture->origin = stream;
  capture->record.name = "capture " + std::to_string(num_captures_++);
  capture->record.pool = shares_pool_ ? "shared pool" : capture->record.name;
  origin.capture = capture;
  origin.nodes.clear();
  captures_.push_back(std::move(capture));
}

Graph HostRuntime::end_capture(Stream stream, CallingThread thread) {
  StreamState& origin = state(stream);
  const auto capture = origin.capture;
  if (capture == nullptr) {
    throw ApiError(ApiErrorCode::kIllegalState, "cudaStreamEndCapture",
                   "stream " + origin.name + " is not capturing");
  }
  if (capture->origin != stream) {
    capture->invalid = true;
    throw ApiError(ApiErrorCode::kStreamCaptureUnmatched, "cudaStreamEndCapture",
                   "stream " + origin.name + " joined the capture, it did not begin it");
  }
  const bool wrong_thread =
      thread == CallingThread::kOther && capture->mode != CaptureMode::kRelaxed;
  try {
    if (wrong_thread) {
      throw ApiError(ApiErrorCode::kStreamCaptureWrongThread, "cudaStreamEndCapture",
                     "another thread began the capture");
    }
    if (capture->invalid) {
      throw ApiError(ApiErrorCode::kStreamCaptureInvalidated, "cudaStreamEndCapture",
                     "an earlier call invalidated the capture of stream " + origin.name);
    }
    require_joined(*capture);
  } catch (const ApiError&) {
    leave_capture(capture);
    give_back_pool(capture->record);
    throw;
  }
  leave_capture(capture);
  graphs_.push_back(std::make_unique<GraphRecord>(std::move(capture->record)));
  return {static_cast<int>(graphs_.size()) - 1};
}

bool HostRuntime::is_capturing(Stream stream) const {
  return streams_.at(stream.id).capture != nullptr;
}

void HostRuntime::capture_node(StreamState& stream, const OpInfo& op,
                               std::span<const std::byte> params) {
  Capture& capture = *stream.capture;
  if (capture.invalid) {
    throw ApiError(ApiErrorCode::kStreamCaptureInvalidated, op.name,
                   "the capture of stream " + stream.name + " was invalidated");
  }
  capture.record.nodes.push_back({.op = &op,
                                  .params = {params.begin(), params.end()},
                                  .dependencies = stream.nodes,
                                  .stream = stream.name,
                                  .captured_at = memory_.ledger().now()});
  stream.nodes = {static_cast<int>(capture.record.nodes.size()) - 1};
}

// cudaStreamWaitEvent on an event that was last recorded in a capture.
void HostRuntime::join_capture(StreamState& stream, const EventState& event) {
  constexpr std::string_view kCall = "cudaStreamWaitEvent";
  if (!event.capture->active || event.capture->invalid) {
    if (stream.capture != nullptr) stream.capture->invalid = true;
    throw ApiError(ApiErrorCode::kInvalidValue, kCall,
                   "the event was last recorded in a capture that is over or invalid");
  }
  if (stream.capture == nullptr) {
    stream.capture = event.capture;
    stream.nodes = event.nodes;
    return;
  }
  if (stream.capture != event.capture) {
    stream.capture->invalid = true;
    event.capture->invalid = true;
    throw ApiError(ApiErrorCode::kStreamCaptureMerge, kCall,
                   "stream " + stream.name + " belongs to another capture than the event");
  }
  for (const int node : event.nodes) {
    if (std::find(stream.nodes.begin(), stream.nodes.end(), node) == stream.nodes.end()) {
      stream.nodes.push_back(node);
    }
  }
  std::sort(stream.nodes.begin(), stream.nodes.end());
}

// The work of every stream that joined must come before the last node of the origin.
void HostRuntime::require_joined(const Capture& capture) const {
  const auto before_end = capture.record.ancestors_of(streams_.at(capture.origin.id).nodes);
  for (const StreamState& stream : streams_) {
    if (stream.capture.get() != &capture) continue;
    for (const int node : stream.nodes) {
      if (before_end[node]) continue;
      throw ApiError(ApiErrorCode::kStreamCaptureUnjoined, "cudaStreamEndCapture",
                     "stream " + stream.name + " was forked and not joined, its last op is " +
                         std::string(capture.record.nodes[node].op->name));
    }
  }
}

void HostRuntime::leave_capture(const std::shared_ptr<Capture>& capture) {
  capture->active = false;
  for (StreamState& stream : streams_) {
    if (stream.capture != capture) continue;
    stream.capture = nullptr;
    stream.nodes.clear();
  }
  std::erase(captures_, capture);
}

// The capture whose pool an allocation comes from: the one in progress.
std::shared_ptr<HostRuntime::Capture> HostRuntime::allocating_capture() const {
  return captures_.empty() ? nullptr : captures_.back();
}

// A potentially unsafe call: refused by a global capture of any thread and by a thread-local one of
// the calling thread, which it invalidates.
void HostRuntime::refuse_unsafe(std::string_view call, CallingThread thread) {
  bool refused = false;
  for (const auto& capture : captures_) {
    const bool hit = capture->mode == CaptureMode::kGlobal ||
                     (capture->mode == CaptureMode::kThreadLocal && thread == CallingThread::kSame);
    if (hit) capture->invalid = true;
    refused = refused || hit;
  }
  if (refused) {
    throw ApiError(ApiErrorCode::kStreamCaptureUnsupported, call,
                   "not permitted while a stream is capturing; the capture is invalidated");
  }
}

void HostRuntime::refuse_on_capturing_stream(std::string_view call, int stream) {
  const auto& capture = streams_.at(stream).capture;
  if (capture == nullptr) return;
  capture->invalid = true;
  throw ApiError(ApiErrorCode::kStreamCaptureUnsupported, call,
                 "stream " + streams_.at(stream).name + " is capturing");
}

void HostRuntime::refuse_on_captured_event(std::string_view call, int event) {
  const auto& capture = events_.at(event).capture;
  if (capture == nullptr) return;
  if (!capture->active || capture->invalid) {
    throw ApiError(ApiErrorCode::kInvalidValue, call,
                   "the event was last recorded in a capture that is over or invalid");
  }
  capture->invalid = true;
  throw ApiError(ApiErrorCode::kCapturedEvent, call, "the event was recorded in a capture");
}

void HostRuntime::call(ApiCall call, int handle, CallingThread thread) {
  switch (call) {
    case ApiCall::kStreamSynchronize:
      refuse_on_capturing_stream("cudaStreamSynchronize", handle);
      refuse_unsafe("cudaStreamSynchronize", thread);
      for (const TaskId task : streams_.at(handle).tasks) scheduler_.run_until(task);
      return;
    case ApiCall::kStreamQuery:
      refuse_on_capturing_stream("cudaStreamQuery", handle);
      refuse_unsafe("cudaStreamQuery", thread);
      return;
    case ApiCall::kEventSynchronize:
      refuse_on_captured_event("cudaEventSynchronize", handle);
      refuse_unsafe("cudaEventSynchronize", thread);
      for (const TaskId task : events_.at(handle).tasks) scheduler_.run_until(task);
      return;
    case ApiCall::kEventQuery:
      refuse_on_captured_event("cudaEventQuery", handle);
      refuse_unsafe("cudaEventQuery", thread);
      return;
    case ApiCall::kDeviceSynchronize:
      if (!captures_.empty()) {
        for (const auto& capture : captures_) capture->invalid = true;
        throw ApiError(ApiErrorCode::kStreamCaptureUnsupported, "cudaDeviceSynchronize",
                       "a stream is capturing; every capture is invalidated");
      }
      for (const TaskId task : everything_enqueued()) scheduler_.run_until(task);
      return;
    case ApiCall::kMalloc:
      return refuse_unsafe("cudaMalloc", thread);
    case ApiCall::kFree:
      return refuse_unsafe("cudaFree", thread);
    case ApiCall::kHostMalloc:
      return refuse_unsafe("cudaMallocHost", thread);
    case ApiCall::kMemcpy:
      return;  // blocking copies run on the legacy stream, outside of captures
  }
}

}  // namespace dcp
