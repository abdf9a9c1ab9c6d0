// The audit of a run, step after step: each graph is looked at when it is captured, and again
// whenever memory has changed.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "audit/rule.hpp"
#include "comm/world.hpp"
#include "engine/engine.hpp"

namespace dcp {

class RunAudit {
 public:
  explicit RunAudit(World& world);

  // Hazards that were not there before, now that the step of that index has run. Only where no rank
  // enqueues.
  audit::Findings look(Engine& engine, int step);

  // All hazards of a graph, as of the last look.
  audit::Findings of_graph(const std::string& graph) const;

  // Whether the next step would use memory that was given back, as of the last look.
  bool binds_freed_memory() const;

  // As of the last look; graphs that are gone are not in it.
  const std::vector<audit::RankRecord>& ranks() const { return records_; }
  const audit::GraphUses* uses_of(const std::string& graph, int rank) const;

 private:
  struct RankState {
    std::uint64_t seen_at = 0;  // Ledger::now()
    std::unique_ptr<audit::MemoryMap> memory;
    std::vector<int> graphs;                              // handles, as records_[rank].graphs
    std::vector<std::unique_ptr<audit::GraphUses>> uses;  // likewise
    bool memory_changed = false;
    std::vector<std::string> fresh;  // graphs that were captured since
  };
  struct OfGraph {
    audit::Findings of_capture;
    audit::Findings of_memory;
  };

  void follow(Engine& engine, Rank& rank, int step);
  void follow_graphs(Engine& engine, Rank& rank);
  std::vector<audit::GraphScope> scopes_of(const std::string& graph) const;
  void audit_capture(const std::string& graph, audit::Findings& added);
  void audit_memory(const std::string& graph, audit::Findings& added);

  World& world_;
  std::vector<audit::RankRecord> records_;  // [world_size]
  std::vector<RankState> states_;           // likewise
  std::map<std::string, OfGraph> found_;    // by graph
};

}  // namespace dcp
