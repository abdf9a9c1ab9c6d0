#include "cli/audit_text.hpp"

#include <map>
#include <ostream>
#include <set>

#include "cli/text_table.hpp"
#include "core/printable_text.hpp"

namespace dcp {

namespace {

std::string nodes_text(const std::vector<int>& nodes) {
  constexpr std::size_t kMost = 6;
  std::string text;
  for (std::size_t i = 0; i < nodes.size() && i < kMost; ++i) {
    text += (i == 0 ? "" : " ") + std::to_string(nodes[i]);
  }
  return text + (nodes.size() > kMost ? " +" + std::to_string(nodes.size() - kMost) : "");
}

void print_buffers(std::ostream& out, const std::vector<BakedBuffer>& buffers) {
  TextTable table({"buffer", "bytes", "owner", "is", "life", "read by", "written by"});
  table.align_right(1);
  for (const BakedBuffer& buffer : buffers) {
    const audit::Allocation& allocation = *buffer.allocation;
    table.add({printable_text(allocation.name) + "@" + std::to_string(allocation.generation),
               std::to_string(allocation.size_bytes), printable_text(allocation.owner),
               buffer.binding == nullptr ? "" : role_text(buffer.binding->role),
               life_text(allocation), nodes_text(buffer.readers), nodes_text(buffer.writers)});
  }
  table.print(out, "  ");
}

// A word of two 32-bit values shows both.
std::string word_text(std::uint64_t word) {
  const std::uint64_t high = word >> 32;
  const auto low = static_cast<std::uint32_t>(word);
  if (high == 0 || static_cast<std::int64_t>(word) == -1) {
    return std::to_string(static_cast<std::int64_t>(word));
  }
  return std::to_string(low) + "," + std::to_string(high);
}

// Host values of each op, once for all layers that have the same.
void print_scalars(std::ostream& out, const audit::RankRecord& rank, const audit::Graph& graph) {
  std::map<std::string, std::set<std::string>> by_op;
  for (const audit::Node& node : graph.nodes) {
    std::string values;
    for (const std::uint64_t word : host_words(rank, node)) values += " " + word_text(word);
    if (!values.empty()) by_op[node.op].insert(values.substr(1));
  }
  if (by_op.empty()) return;
  out << "  host values, frozen (two 32-bit values of a word with a comma)\n";
  for (const auto& [op, values] : by_op) {
    constexpr std::size_t kMost = 3;
    std::size_t shown = 0;
    for (const std::string& each : values) {
      if (++shown > kMost) break;
      print_wrapped(out, "    " + printable_text(op) + "  ", each);
    }
    if (values.size() > kMost) out << "    ... " << values.size() - kMost << " more of it\n";
  }
}

void print_graph(std::ostream& out, const ShownGraph& shown) {
  const audit::RankRecord& rank = *shown.rank;
  const audit::Graph& graph = *shown.graph;
  const audit::MemoryMap memory(rank.allocations);
  const audit::GraphUses uses(graph, memory);
  std::size_t num_edges = 0;
  std::set<std::string> streams;
  for (const audit::Node& node : graph.nodes) {
    num_edges += node.dependencies.size();
    streams.insert(node.stream);
  }
  out << '\n' << printable_text(title_of(shown)) << ": ";
  if (graph.rows > 0) out << graph.rows << " rows, ";
  out << graph.nodes.size() << " nodes, " << num_edges << " edges, " << streams.size()
      << (streams.size() == 1 ? " stream\n" : " streams\n");
  print_buffers(out, baked_buffers(rank, uses));
  print_scalars(out, rank, graph);
}

void print_finding(std::ostream& out, const AuditedFinding& found) {
  const audit::Finding& f = found.finding;
  std::string place;
  for (const std::string& part : place_parts(found)) place += (place.empty() ? "" : ", ") + part;
  print_wrapped(out, "  " + f.kind + "  ", printable_text(place));
  print_wrapped(out, "    why: ", printable_text(f.why));
  if (!f.advice.empty()) print_wrapped(out, "    do:  ", printable_text(f.advice));
}

}  // namespace

void print_audit(std::ostream& out, const Audited& audited, bool all) {
  out << printable_text(audited.file);
  if (!audited.strategy.empty()) out << ", strategy " << audited.strategy;
  out << '\n';
  for (const ShownGraph& shown : shown_graphs(audited, all)) print_graph(out, shown);
  for (const StepReport& step : audited.steps) {
    if (!step.error) continue;
    print_wrapped(out, "\nstep " + std::to_string(step.index) + " refused, ",
                  step.error->kind + ": " + printable_text(step.error->why));
  }
  if (!audited.bad_input.empty()) out << '\n' << printable_text(audited.bad_input) << '\n';
  out << "\n"
      << audited.findings.size() << (audited.findings.size() == 1 ? " finding\n" : " findings\n");
  for (const AuditedFinding& found : audited.findings) print_finding(out, found);
}

}  // namespace dcp
