// A graph as a drawing: one lane for each stream, time from left to right.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "audit/graph_uses.hpp"

namespace dcp {

// Nodes that a drawing and a map show; of a larger graph the first.
inline constexpr std::size_t kMostNodesShown = 120;

// `kinds`: node -> the kinds of hazard that were found there. Two nodes that touch the same bytes
// without an order are joined by a dashed line.
std::string graph_svg(const audit::Graph& graph, const audit::GraphUses& uses,
                      const std::map<int, std::string>& kinds);

std::string html_text(std::string_view text);  // &, <, > and quotes escaped; one line

}  // namespace dcp
