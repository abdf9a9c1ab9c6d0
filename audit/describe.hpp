// Words that several rules use.
#pragma once

#include <string>

#include "audit/rule.hpp"

namespace dcp::audit {

// "attention (node 3, stream compute)".
std::string node_text(const Graph& graph, int node);

// "workspace@2 (4096 bytes)".
std::string buffer_text(const Allocation& allocation);

// "allocated in step 0, given back in step 2".
std::string life_story(const Allocation& allocation);

// A finding with its place: the use's node, argument and buffer. `why` and `advice` are the rule's.
Finding finding_at(std::string_view kind, const GraphScope& scope, const Use& use);

}  // namespace dcp::audit
