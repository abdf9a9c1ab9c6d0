// Graphs that another program captured, read from the JSON of docs/GRAPH_JSON.md.
#pragma once

#include <cstddef>
#include <string>

#include "audit/record.hpp"

namespace dcp {

struct GraphFile {
  audit::Record record;
  std::size_t num_undeclared_nodes = 0;  // whose accesses are the pointers in their arguments
};

// Throws InputError with the place of what is wrong. What a node without `accesses` points to is
// taken as read and written up to the end of the allocation.
GraphFile read_graph_file(const std::string& path);

}  // namespace dcp
