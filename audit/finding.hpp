// What the audit found: one hazard, with its place, its reason and what to do.
#pragma once

#include <cstdint>
#include <string>

namespace dcp::audit {

struct Finding {
  std::string kind;        // of core/kinds
  std::string graph = {};  // "" for none
  std::string node = {};   // an op; "" for none
  int node_index = -1;     // in the graph
  std::string argument = {};
  std::string buffer = {};
  std::uint32_t generation = 0;  // of the buffer; 0: none
  int rank = -1;                 // -1: of no single rank
  int ubatch = -1;               // -1: of none
  std::string why = {};
  std::string advice = {};

  friend bool operator==(const Finding&, const Finding&) = default;
};

}  // namespace dcp::audit
