// Small records, written down by hand.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "audit/audit.hpp"
#include "audit/record.hpp"

namespace dcp::audit {

// One rank with one graph, whose buffers lie at 0x1000, 0x2000, ...
class RecordBuilder {
 public:
  RecordBuilder() {
    record_.ranks.push_back({.rank = 0});
    rank().graphs.push_back({.name = "g"});
  }

  // A buffer that was allocated before the capture; its id.
  std::uint32_t buffer(const std::string& name, std::uint64_t size_bytes, Role role,
                       int ubatch = -1) {
    const auto id = static_cast<std::uint32_t>(rank().allocations.size());
    const Address address = Address{0x1000} * (id + 1);
    rank().allocations.push_back({.id = id,
                                  .name = name,
                                  .owner = "device",
                                  .address = address,
                                  .size_bytes = size_bytes,
                                  .born = 1});
    bind(name, id, role, ubatch);
    return id;
  }

  void bind(const std::string& name, std::uint32_t id, Role role, int ubatch = -1) {
    const Allocation& allocation = rank().allocations[id];
    graph().bindings.push_back({.name = name,
                                .ubatch = ubatch,
                                .role = role,
                                .allocation = id,
                                .address = allocation.address,
                                .size_bytes = allocation.size_bytes});
  }

  // A node after those of `dependencies`, captured at moment 10.
  int node(const std::string& op, std::vector<Access> accesses, std::vector<int> dependencies = {},
           int ubatch = -1) {
    Node node{.op = op, .stream = "compute", .ubatch = ubatch, .captured_at = 10};
    node.accesses = std::move(accesses);
    for (const int dependency : dependencies) node.dependencies.push_back({.node = dependency});
    graph().nodes.push_back(std::move(node));
    return static_cast<int>(graph().nodes.size()) - 1;
  }

  Access access(std::uint32_t id, Mode mode, std::uint64_t offset = 0,
                std::uint64_t size_bytes = 0) const {
    const Allocation& allocation = record_.ranks[0].allocations[id];
    return {.address = allocation.address + offset,
            .size_bytes = size_bytes == 0 ? allocation.size_bytes - offset : size_bytes,
            .mode = mode,
            .argument = allocation.name};
  }
  Access read(std::uint32_t id) const { return access(id, Mode::kRead); }
  Access write(std::uint32_t id) const { return access(id, Mode::kWrite); }

  void end(std::uint32_t id, Ending ending, Moment died) {
    rank().allocations[id].ending = ending;
    rank().allocations[id].died = died;
  }

  RankRecord& rank(std::size_t index = 0) { return record_.ranks[index]; }
  Graph& graph(std::size_t rank_index = 0) { return record_.ranks[rank_index].graphs.front(); }
  Record& record() { return record_; }

  std::vector<std::string> kinds() const {
    std::vector<std::string> kinds;
    for (const Finding& finding : audit(record_)) kinds.push_back(finding.kind);
    return kinds;
  }

 private:
  Record record_;
};

}  // namespace dcp::audit
