#include "tests/conformance/order.hpp"

#include <algorithm>

namespace dcp::conformance {

namespace {

constexpr int kIllegalState = static_cast<int>(ApiErrorCode::kIllegalState);
constexpr int kUnmatched = static_cast<int>(ApiErrorCode::kStreamCaptureUnmatched);

}  // namespace

bool Order::allowed(const Call& call) const {
  const auto is_one_of = [&](const std::vector<int>& those) {
    return std::find(those.begin(), those.end(), call.ref) != those.end();
  };
  switch (call.verb) {
    case Verb::kCopy:
    case Verb::kRound:
    case Verb::kCollective: {
      const auto usable = usable_buffers(call.stream);
      return can_read(call.stream, call.source) &&
             (call.buffer < 0 ||
              std::find(usable.begin(), usable.end(), call.buffer) != usable.end());
    }
    case Verb::kBegin:
      return graphs_.size() < kMaxCaptures;
    case Verb::kFree:
      return is_one_of(freeable_buffers());
    case Verb::kInstantiate:
    case Verb::kDestroyGraph:
      return is_one_of(graphs_without_exec());
    case Verb::kLaunch:
    case Verb::kDestroyExec:
      return is_one_of(execs());
    case Verb::kDrain:
      return captures_.empty();
    case Verb::kRecord:
    case Verb::kWait:
    case Verb::kEnd:
    case Verb::kIsCapturing:
    case Verb::kApiCall:
    case Verb::kAllocate:
      return true;
  }
  return false;
}

void Order::complete(Call& call) const {
  const int capture = streams_[call.stream].capture;
  const int lane = capture < 0 ? 0 : 1 + graphs_.at(capture).number;
  call.communicator = lane * kNumStreams + call.stream;
}

// A graph's slots hold the same values after each launch between two drains: they may be read once
// one of these launches is over, whether or not another runs.
bool Order::can_read(int stream, int source) const {
  if (source < 0) return true;
  const auto op = capture_of_op_.find(source);
  if (op == capture_of_op_.end()) return false;
  const StreamState& state = streams_[stream];
  if (state.capture >= 0) return state.nodes[source];
  const Calls before = state.before | waited_for_;
  if (op->second < 0) return before[source];
  return std::any_of(launches_.begin(), launches_.end(), [&](const auto& launch) {
    return launch.second.graph == op->second && launch.second.interval == interval_ &&
           before[launch.first];
  });
}

std::vector<int> Order::readable_slots(int stream) const {
  std::vector<int> slots;
  for (const auto& [id, capture] : capture_of_op_) {
    if (can_read(stream, id)) slots.push_back(id);
  }
  return slots;
}

std::vector<int> Order::usable_buffers(int stream) const {
  std::vector<int> ids;
  for (const auto& [id, buffer] : buffers_) {
    if (buffer.live && buffer.stream == stream && buffer.capture == streams_[stream].capture) {
      ids.push_back(id);
    }
  }
  return ids;
}

// A pool's buffer only while its capture is the one that allocations come from.
std::vector<int> Order::freeable_buffers() const {
  std::vector<int> ids;
  for (const auto& [id, buffer] : buffers_) {
    const bool in_reach =
        buffer.pool < 0 || (!captures_.empty() && captures_.back() == buffer.pool);
    if (buffer.live && in_reach) ids.push_back(id);
  }
  return ids;
}

std::vector<int> Order::graphs_without_exec() const {
  std::vector<int> ids;
  for (const auto& [id, graph] : graphs_) {
    if (graph.live && !graph.has_exec) ids.push_back(id);
  }
  return ids;
}

std::vector<int> Order::execs() const {
  std::vector<int> ids;
  for (const auto& [id, graph] : graphs_) {
    if (graph.has_exec) ids.push_back(id);
  }
  return ids;
}

std::vector<int> Order::streams_of(int capture) const {
  std::vector<int> streams;
  for (int stream = 0; stream < kNumStreams; ++stream) {
    if (streams_[stream].capture == capture) streams.push_back(stream);
  }
  return streams;
}

bool Order::is_plain_wait(int stream, int event) const {
  const EventState& state = events_[event];
  const bool is_over = state.capture >= 0 && std::find(captures_.begin(), captures_.end(),
                                                       state.capture) == captures_.end();
  if (is_over) return false;
  return state.capture == streams_[stream].capture ||
         (streams_[stream].capture < 0 && state.recorded);
}

void Order::happened(const Call& call, const Answer& answer) {
  if (call.verb == Verb::kEnd) return end(call, answer);
  if (!answer.ok()) return;
  StreamState& stream = streams_[call.stream];
  switch (call.verb) {
    case Verb::kCopy:
    case Verb::kRound:
    case Verb::kCollective:
      capture_of_op_[call.id] = stream.capture;
      (stream.capture < 0 ? stream.before : stream.nodes).set(call.id);
      return;
    case Verb::kRecord:
      events_[call.event] = {.capture = stream.capture,
                             .recorded = true,
                             .calls = stream.capture < 0 ? stream.before : stream.nodes};
      return;
    case Verb::kWait:
      return wait(call);
    case Verb::kBegin:
      graphs_[call.id] = {.number = static_cast<int>(graphs_.size()), .origin = call.stream};
      captures_.push_back(call.id);
      stream.capture = call.id;
      stream.nodes.reset();
      return;
    case Verb::kApiCall:
      return synchronize(call);
    case Verb::kAllocate:
      return allocate(call);
    case Verb::kFree:
      buffers_.at(call.ref).live = false;
      return;
    case Verb::kInstantiate:
      graphs_.at(call.ref).has_exec = true;
      return;
    case Verb::kLaunch:
      launches_[call.id] = {.graph = call.ref, .interval = interval_};
      stream.before.set(call.id);
      return;
    case Verb::kDestroyExec:
      graphs_.at(call.ref).has_exec = false;
      return;
    case Verb::kDestroyGraph:
      graphs_.at(call.ref).live = false;
      return;
    case Verb::kDrain:
      for (const StreamState& each : streams_) waited_for_ |= each.before;
      ++interval_;
      return;
    case Verb::kEnd:
    case Verb::kIsCapturing:
      return;
  }
}

void Order::allocate(const Call& call) {
  BufferState& buffer = buffers_[call.id];
  buffer.pool = captures_.empty() ? -1 : captures_.back();
  buffer.capture = streams_[call.stream].capture;
  if (buffer.capture == buffer.pool) buffer.stream = call.stream;
}

void Order::wait(const Call& call) {
  StreamState& stream = streams_[call.stream];
  const EventState& event = events_[call.event];
  if (event.capture < 0) {
    if (stream.capture < 0) stream.before |= event.calls;
    return;
  }
  if (stream.capture < 0) {
    stream.capture = event.capture;
    stream.nodes.reset();
  }
  stream.nodes |= event.calls;
}

void Order::end(const Call& call, const Answer& answer) {
  const int capture = streams_[call.stream].capture;
  if (capture < 0 || answer.code == kIllegalState || answer.code == kUnmatched) return;
  graphs_.at(capture).live = answer.ok();
  leave(capture);
}

void Order::leave(int capture) {
  for (const int stream : streams_of(capture)) streams_[stream].capture = -1;
  std::erase(captures_, capture);
}

void Order::synchronize(const Call& call) {
  switch (call.api) {
    case ApiCall::kStreamSynchronize:
      waited_for_ |= streams_[call.stream].before;
      return;
    case ApiCall::kEventSynchronize:
      if (events_[call.event].capture < 0) waited_for_ |= events_[call.event].calls;
      return;
    case ApiCall::kDeviceSynchronize:
      for (const StreamState& stream : streams_) waited_for_ |= stream.before;
      return;
    default:
      return;
  }
}

}  // namespace dcp::conformance
