#include "runtime/host/host_runtime.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "core/error.hpp"
#include "runtime/hold_op.hpp"
#include "runtime/memcpy_op.hpp"
#include "runtime/poison_op.hpp"

namespace dcp {

namespace {

std::vector<std::byte> bytes_of(std::span<const std::byte> params) {
  return {params.begin(), params.end()};
}

template <class Id>
void merge(std::vector<Id>& into, const std::vector<Id>& from) {
  for (const Id id : from) {
    if (std::find(into.begin(), into.end(), id) == into.end()) into.push_back(id);
  }
  std::sort(into.begin(), into.end());
}

}  // namespace

Stream HostRuntime::make_stream(std::string_view name) {
  streams_.push_back({.name = std::string(name), .tasks = {}, .capture = nullptr, .nodes = {}});
  return {static_cast<int>(streams_.size()) - 1};
}

Event HostRuntime::make_event() {
  events_.emplace_back();
  return {static_cast<int>(events_.size()) - 1};
}

Buffer HostRuntime::allocate(std::string_view name, std::size_t size_bytes) {
  const auto capture = allocating_capture();
  if (capture == nullptr) return memory_.allocate(name, "device", size_bytes);
  std::vector<std::vector<int>> frontiers;
  for (const StreamState& stream : streams_) {
    if (stream.capture == capture) frontiers.push_back(stream.nodes);
  }
  return memory_.allocate_from_pool(name, size_bytes, capture->record, frontiers);
}

std::vector<Buffer> HostRuntime::allocate_together(std::span<const BufferRequest> parts) {
  if (allocating_capture() != nullptr) return Runtime::allocate_together(parts);
  return memory_.allocate_together(parts, "device");
}

Buffer HostRuntime::allocate_pinned(std::string_view name, std::size_t size_bytes) {
  return memory_.allocate(name, "pinned", size_bytes);
}

void HostRuntime::free(const Buffer& buffer) {
  const std::string& owner = memory_.ledger().at(buffer.id).owner;
  if (const auto capture = allocating_capture();
      capture != nullptr && capture->record.pool == owner) {
    memory_.release_to_pool(buffer, capture->record);
    return;
  }
  memory_.release(buffer);
  const auto before = everything_enqueued();
  const bool pending =
      std::any_of(before.begin(), before.end(), [&](TaskId id) { return !scheduler_.done(id); });
  if (pending) {
    add_poison({buffer.data, buffer.size_bytes}, before);
  } else {
    memory_.poison(buffer.data, buffer.size_bytes);
  }
}

void HostRuntime::enqueue(Stream stream, const OpInfo& op, std::span<const std::byte> params) {
  assert(params.size() == op.params_size);
  StreamState& target = state(stream);
  if (target.capture != nullptr) {
    if (judge(op, params.data(), true).kind != Verdict::kSkip) capture_node(target, op, params);
    return;
  }
  Task task{
      .op = &op, .params = nullptr, .owned = bytes_of(params), .rank = rank_, .where = target.name};
  task.params = task.owned.data();
  target.tasks = {
      add({.task = std::move(task), .dependencies = target.tasks, .may_use_freed = true})};
}

void HostRuntime::copy(Stream stream, void* to, const void* from, std::size_t size_bytes) {
  dcp::enqueue<MemcpyOp>(*this, stream, {.to = to, .from = from, .size_bytes = size_bytes});
}

void HostRuntime::launch(GraphExec exec, Stream stream) {
  Executable& executable = execs_.at(exec.id);
  assert(executable.alive);
  StreamState& target = state(stream);
  if (target.capture != nullptr) {
    target.capture->invalid = true;
    throw ApiError(ApiErrorCode::kStreamCaptureUnsupported, "cudaGraphLaunch",
                   "a graph is launched into a capture");
  }
  find_freed_users(executable);
  // A graph does not run concurrently with itself: a launch comes after the previous one.
  std::vector<TaskId> before = target.tasks;
  if (executable.last_launch >= 0) before.push_back(executable.last_launch);
  const Task mark{.op = nullptr,
                  .params = nullptr,
                  .owned = {},
                  .rank = rank_,
                  .where = executable.record.name};
  const TaskId begin = scheduler_.add(mark, before);

  std::vector<TaskId> all = {begin};
  std::vector<TaskId> node_tasks;
  for (const GraphNode& node : executable.record.nodes) {
    std::vector<TaskId> dependencies;
    for (const int dependency : node.dependencies) dependencies.push_back(node_tasks[dependency]);
    if (dependencies.empty()) dependencies.push_back(begin);
    const bool uses_freed = executable.uses_freed[node_tasks.size()];
    node_tasks.push_back(add({.task = {.op = node.op,
                                       .params = node.params.data(),
                                       .owned = {},
                                       .rank = rank_,
                                       .where = executable.record.name,
                                       .stream = node.stream},
                              .dependencies = std::move(dependencies),
                              .may_use_freed = uses_freed}));
    all.push_back(node_tasks.back());
  }
  executable.last_launch = scheduler_.add(mark, all);
  target.tasks = {executable.last_launch};
}

GraphExec HostRuntime::instantiate(Graph graph) {
  refuse_unsafe("cudaGraphInstantiate", CallingThread::kSame);
  execs_.push_back({.record = record_of(graph)});
  return {static_cast<int>(execs_.size()) - 1};
}

void HostRuntime::destroy(GraphExec exec) {
  Executable& executable = execs_.at(exec.id);
  // Whether a wait for something else has let the launch end too depends on the schedule: what is
  // refused must not. So only a drain counts.
  if (!scheduler_.drained(executable.last_launch)) {
    throw StepError("graph_in_flight", "graph " + executable.record.name + " of rank " +
                                           std::to_string(rank_) + " has a pending launch");
  }
  refuse_unsafe("cudaGraphExecDestroy", CallingThread::kSame);
  executable.alive = false;
  executable.record = {};
}

void HostRuntime::destroy(Graph graph) {
  const auto gone = std::move(graphs_.at(graph.id));
  give_back_pool(*gone);
}

const GraphRecord& HostRuntime::record_of(Graph graph) const {
  assert(graphs_.at(graph.id) != nullptr);
  return *graphs_[graph.id];
}

std::vector<const GraphRecord*> HostRuntime::live_graphs() const {
  std::vector<const GraphRecord*> live;
  for (const auto& graph : graphs_) {
    if (graph != nullptr) live.push_back(graph.get());
  }
  return live;
}

void HostRuntime::read(void* to, const void* from, std::size_t size_bytes) {
  assert(scheduler_.idle());
  if (size_bytes > 0) std::memcpy(to, from, size_bytes);
}

void HostRuntime::write(void* to, const void* from, std::size_t size_bytes) {
  assert(scheduler_.idle());
  if (size_bytes > 0 && memory_.backing() == Backing::kBytes) std::memcpy(to, from, size_bytes);
}

void HostRuntime::forget_pending_work() {
  for (StreamState& stream : streams_) stream.tasks.clear();
  for (EventState& event : events_) event.tasks.clear();
}

std::vector<TaskId> HostRuntime::everything_enqueued() const {
  std::vector<TaskId> all;
  for (const StreamState& stream : streams_) merge(all, stream.tasks);
  return all;
}

void HostRuntime::record(Event event, Stream stream) {
  StreamState& source = state(stream);
  if (source.capture != nullptr && source.capture->invalid) {
    throw ApiError(ApiErrorCode::kStreamCaptureInvalidated, "cudaEventRecord",
                   "the capture of stream " + source.name + " was invalidated");
  }
  events_.at(event.id) = {
      .recorded = true, .tasks = source.tasks, .capture = source.capture, .nodes = source.nodes};
}

void HostRuntime::wait(Stream stream, Event event) {
  StreamState& target = state(stream);
  const EventState& source = events_.at(event.id);
  if (target.capture != nullptr && target.capture->invalid) {
    throw ApiError(ApiErrorCode::kStreamCaptureInvalidated, "cudaStreamWaitEvent",
                   "the capture of stream " + target.name + " was invalidated");
  }
  if (source.capture != nullptr) {
    join_capture(target, source);
  } else if (target.capture == nullptr) {
    merge(target.tasks, source.tasks);
  } else if (source.recorded) {
    target.capture->invalid = true;
    throw ApiError(ApiErrorCode::kStreamCaptureIsolation, "cudaStreamWaitEvent",
                   "stream " + target.name + " captures, the event was recorded outside");
  }
}

}  // namespace dcp
