// One rank of the simulated device. Streams are frontiers of a growing order: eager work becomes
// tasks of the scheduler, captured work becomes nodes of a graph, by the same rule.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "runtime/host/host_memory.hpp"
#include "runtime/host/scheduler.hpp"
#include "runtime/interference.hpp"
#include "runtime/runtime.hpp"

namespace dcp {

class HostRuntime final : public Runtime {
 public:
  HostRuntime(Scheduler& scheduler, int rank, Backing backing = Backing::kBytes)
      : scheduler_(scheduler), rank_(rank), memory_(backing) {}

  Stream make_stream(std::string_view name) override;
  Event make_event() override;
  Buffer allocate(std::string_view name, std::size_t size_bytes) override;
  std::vector<Buffer> allocate_together(std::span<const BufferRequest> parts) override;
  Buffer allocate_pinned(std::string_view name, std::size_t size_bytes) override;
  void free(const Buffer& buffer) override;
  Buffer remap(const Buffer& buffer) override { return memory_.remap(buffer); }
  void share_pool() override { shares_pool_ = true; }
  void enqueue(Stream stream, const OpInfo& op, std::span<const std::byte> params) override;
  void copy(Stream stream, void* to, const void* from, std::size_t size_bytes) override;
  void record(Event event, Stream stream) override;
  void wait(Stream stream, Event event) override;
  void begin_capture(Stream stream, CaptureMode mode) override;
  Graph end_capture(Stream stream) override { return end_capture(stream, CallingThread::kSame); }
  bool is_capturing(Stream stream) const override;
  void call(ApiCall call, int handle, CallingThread thread) override;
  GraphExec instantiate(Graph graph) override;
  void launch(GraphExec exec, Stream stream) override;
  void destroy(GraphExec exec) override;
  void destroy(Graph graph) override;
  const GraphRecord& record_of(Graph graph) const override;
  const Ledger& ledger() const override { return memory_.ledger(); }
  void read(void* to, const void* from, std::size_t size_bytes) override;
  void write(void* to, const void* from, std::size_t size_bytes) override;

  // end_capture as called from another thread than the one that began it.
  Graph end_capture(Stream stream, CallingThread thread);

  // Who is asked about every op from here on; null: nobody.
  void interfere(Interference* by) { interference_ = by; }

  // Graphs that were captured and not destroyed.
  std::vector<const GraphRecord*> live_graphs() const;

  // After Scheduler::abandon(): nothing is pending any more.
  void forget_pending_work();

 private:
  struct Capture {
    CaptureMode mode;
    Stream origin;
    bool active = true;  // not ended
    bool invalid = false;
    GraphRecord record;
  };
  // The tasks (or, while it captures, the nodes) that the next item of the stream comes after.
  struct StreamState {
    std::string name;
    std::vector<TaskId> tasks;
    std::shared_ptr<Capture> capture;  // shared with events: they outlive the capture
    std::vector<int> nodes;
  };
  struct EventState {
    bool recorded = false;
    std::vector<TaskId> tasks;
    std::shared_ptr<Capture> capture;
    std::vector<int> nodes;
  };
  struct Executable {
    GraphRecord record;  // its own copy, as instantiation copies a graph
    TaskId last_launch = -1;
    bool alive = true;
    std::vector<bool> uses_freed = {};  // per node
    std::size_t freed_known = 0;        // memory_.num_freed() when that was found out
  };

  // One op on its way to the scheduler: what it runs, and what `dependencies` it comes after.
  struct OpTask {
    Task task;
    std::vector<TaskId> dependencies;
    bool may_use_freed;
  };

  StreamState& state(Stream stream) { return streams_.at(stream.id); }
  Verdict judge(const OpInfo& op, const void* params, bool is_captured) const;
  TaskId add(OpTask added);
  TaskId add_poison(const HostMemory::Range& range, std::span<const TaskId> dependencies);
  void find_freed_users(Executable& executable) const;
  void give_back_pool(const GraphRecord& record);
  void capture_node(StreamState& stream, const OpInfo& op, std::span<const std::byte> params);
  void join_capture(StreamState& stream, const EventState& event);
  void require_joined(const Capture& capture) const;
  void leave_capture(const std::shared_ptr<Capture>& capture);
  void refuse_unsafe(std::string_view call, CallingThread thread);
  void refuse_on_capturing_stream(std::string_view call, int stream);
  void refuse_on_captured_event(std::string_view call, int event);
  std::shared_ptr<Capture> allocating_capture() const;
  std::vector<TaskId> everything_enqueued() const;

  Scheduler& scheduler_;
  int rank_;
  HostMemory memory_;
  std::vector<StreamState> streams_;
  std::vector<EventState> events_;
  std::vector<std::shared_ptr<Capture>> captures_;    // in progress
  std::vector<std::unique_ptr<GraphRecord>> graphs_;  // null: destroyed
  std::deque<Executable> execs_;
  int num_captures_ = 0;
  bool shares_pool_ = false;
  Interference* interference_ = nullptr;
};

}  // namespace dcp
