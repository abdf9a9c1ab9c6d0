// Everything that is enqueued and not drained, with the order that streams, events, graphs and
// launches give it: accesses that nothing orders are found even if this run's order was right.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "audit/finding.hpp"
#include "audit/graph_uses.hpp"
#include "audit/record.hpp"
#include "runtime/host/scheduler.hpp"

namespace dcp {

class PendingWork final : public ScheduleObserver {
 public:
  // Passes on to `next` what it is told; null: to nobody.
  explicit PendingWork(ScheduleObserver* next) : next_(next) {}

  void begin_step(int index) { step_ = index; }

  // Takes note of what is added: of each rank, that of so many launches. A step that is waited for
  // has no other order after the first ones.
  void watch(std::int64_t max_launches) {
    max_launches_ = max_launches;
    launches_.clear();
  }
  void forget() { work_.clear(); }

  // Operations of all ranks that are noted now.
  std::size_t num_noted() const;

  void added(TaskId id, const Task& task, std::span<const TaskId> dependencies) override;
  void stepped(TaskId id, const Task& task, bool done) override;
  void abandoned() override;

  // What this step does without an order to steps that are pending, one finding for each of them
  // and rank; `graph` is the one that this step launches, "" for an eager step. Steps that it found
  // go into `others`. Of an eager step also the memory that was given back before it: for a graph,
  // rules tell.
  std::vector<audit::Finding> look(const std::vector<audit::RankRecord>& ranks,
                                   const std::string& graph, std::vector<int>& others) const;

 private:
  struct Work {
    TaskId id;
    int step;
    int launch;  // of a graph; -1: eager
    audit::Node node;
    std::vector<TaskId> dependencies;
    bool is_copy;  // to or from the device, by no graph
  };

  // What this step and another do without an order.
  struct Race {
    bool is_of_copy;  // to or from the device, on one side at least
    const audit::Conflict* conflict;
  };

  static audit::Graph graph_of(const std::vector<Work>& all);
  std::map<int, Race> races_of(const std::vector<Work>& all,
                               const std::vector<audit::Conflict>& conflicts) const;
  audit::Finding finding_of(const Race& race, const std::vector<Work>& all,
                            const audit::RankRecord& record) const;

  // One for each allocation.
  void find_freed_uses(const std::vector<Work>& all, const audit::GraphUses& uses,
                       const audit::RankRecord& record, std::vector<audit::Finding>& found) const;

  ScheduleObserver* next_;
  std::int64_t max_launches_ = 0;         // 0: nothing is noted
  std::map<int, std::int64_t> launches_;  // by rank, since watch()
  int step_ = 0;
  int num_launches_ = 0;
  std::map<int, std::vector<Work>> work_;  // by rank, in the order of the tasks
};

}  // namespace dcp
