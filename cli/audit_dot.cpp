#include "cli/audit_dot.hpp"

#include <map>
#include <set>

namespace dcp {

namespace {

std::string dot_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result + "\"";
}

constexpr const char* kUbatchColors[] = {"#dbeafe", "#dcfce7", "#fef9c3", "#f3e8ff"};

void add_nodes(const std::map<int, std::string>& kinds, const audit::Graph& graph,
               const std::string& prefix, std::string& dot) {
  std::map<std::string, std::vector<int>> streams;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    streams[graph.nodes[i].stream].push_back(static_cast<int>(i));
  }
  for (const auto& [stream, nodes] : streams) {
    dot += "    subgraph " + dot_text("cluster_" + prefix + stream) +
           " {\n      label=" + dot_text("stream " + stream) + "; color=\"#94a3b8\";\n";
    for (const int i : nodes) {
      const audit::Node& node = graph.nodes[static_cast<std::size_t>(i)];
      const auto found = kinds.find(i);
      const bool is_red = found != kinds.end();
      const char* color = node.ubatch < 0 ? "#f1f5f9" : kUbatchColors[node.ubatch % 4];
      const std::string label =
          std::to_string(i) + " " + node.op + (is_red ? "\n" + found->second : "");
      dot += "      " + dot_text(prefix + std::to_string(i)) + " [label=" + dot_text(label) +
             ", fillcolor=" + dot_text(is_red ? "#fecaca" : color) +
             (is_red ? ", color=\"#dc2626\"" : "") + "];\n";
    }
    dot += "    }\n";
  }
}

void add_edges(const audit::RankRecord& rank, const audit::Graph& graph, const std::string& prefix,
               std::string& dot) {
  const auto edge = [&](int from, int to, const std::string& style) {
    dot += "    " + dot_text(prefix + std::to_string(from)) + " -> " +
           dot_text(prefix + std::to_string(to)) + style + ";\n";
  };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const audit::Dependency& dependency : graph.nodes[i].dependencies) {
      edge(dependency.node, static_cast<int>(i),
           dependency.is_programmatic ? " [style=dotted, label=\"programmatic\"]" : "");
    }
  }
  const audit::MemoryMap memory(rank.allocations);
  const audit::GraphUses uses(graph, memory);
  std::set<std::pair<int, int>> drawn;
  for (const audit::Conflict& conflict : uses.conflicts()) {
    const std::pair<int, int> nodes{conflict.first->node, conflict.second->node};
    if (!drawn.insert(nodes).second) continue;
    edge(nodes.first, nodes.second,
         " [dir=none, style=dashed, color=\"#dc2626\", penwidth=2, constraint=false]");
  }
}

}  // namespace

std::string audit_dot(const Audited& audited) {
  std::string dot =
      "digraph audit {\n  rankdir=LR;\n  node [shape=box, style=filled, "
      "fontname=\"sans-serif\"];\n";
  const std::vector<ShownGraph> graphs = shown_graphs(audited, false);
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    const std::string prefix = "g" + std::to_string(g) + "_";
    dot += "  subgraph " + dot_text("cluster_" + prefix) +
           " {\n    label=" + dot_text(title_of(graphs[g])) + ";\n";
    add_nodes(kinds_of(audited, graphs[g]), *graphs[g].graph, prefix, dot);
    add_edges(*graphs[g].rank, *graphs[g].graph, prefix, dot);
    dot += "  }\n";
  }
  return dot + "}\n";
}

}  // namespace dcp
