// Words for two nodes that no path orders.
#pragma once

#include <set>
#include <string>
#include <tuple>

#include "audit/describe.hpp"

namespace dcp::audit {

// Whether both nodes are of ubatches, and of different ones.
inline bool is_across_ubatches(const GraphScope& scope, const Conflict& conflict) {
  const int a = scope.node(*conflict.first).ubatch;
  const int b = scope.node(*conflict.second).ubatch;
  return a >= 0 && b >= 0 && a != b;
}

// Whether the bytes hold nothing that ubatches share on purpose.
inline bool is_of_one_ubatch(const GraphScope& scope, const Conflict& conflict) {
  for (const Use* use : {conflict.first, conflict.second}) {
    const Binding* binding = scope.uses.binding_of(*use);
    if (binding == nullptr) return false;
    if (binding->role != Role::kScratch && binding->role != Role::kOutput) return false;
  }
  return true;
}

inline std::string why_unordered(const GraphScope& scope, const Conflict& conflict) {
  const auto does = [](const Use& use) {
    return use.access->mode == Mode::kRead    ? " reads "
           : use.access->mode == Mode::kWrite ? " writes "
                                              : " reads and writes ";
  };
  return node_text(scope.graph, conflict.first->node) + does(*conflict.first) +
         std::to_string(conflict.end - conflict.begin) + " bytes that " +
         node_text(scope.graph, conflict.second->node) + does(*conflict.second) + "as " +
         conflict.second->access->argument + ", and no path of edges orders them";
}

// One report for each pair of ops and buffer.
using ReportedConflicts = std::set<std::tuple<std::string, std::string, std::string>>;

inline bool is_new(const GraphScope& scope, const Conflict& conflict, ReportedConflicts& reported) {
  const Finding at = finding_at("", scope, *conflict.first);
  return reported.insert({at.buffer, at.node, scope.node(*conflict.second).op}).second;
}

}  // namespace dcp::audit
