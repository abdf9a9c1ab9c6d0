#include "cli/audit_html.hpp"

#include <algorithm>

#include "cli/graph_svg.hpp"

namespace dcp {

namespace {

constexpr std::string_view kStyle = R"(<style>
body{font:14px/1.4 system-ui,sans-serif;margin:16px 24px;color:#0f172a;background:#fff}
h1{font-size:19px;margin:0 0 4px}h2{font-size:16px;margin:20px 0 6px}h3{font-size:13px;margin:12px 0 4px;color:#475569}
.scroll{overflow:auto;max-height:560px;border:1px solid #cbd5e1;border-radius:6px}
table{border-collapse:collapse;font-size:12.5px}th,td{border:1px solid #e2e8f0;padding:3px 7px;text-align:left;vertical-align:top}
th{background:#f8fafc}.num{text-align:right;font-variant-numeric:tabular-nums}
.map th.node{writing-mode:vertical-rl;transform:rotate(180deg);font-weight:400;padding:4px 2px;max-height:110px;position:sticky;top:0}
.map td.c{width:19px;min-width:19px;padding:0;text-align:center;font-size:11px}
.map td:first-child{position:sticky;left:0;background:#fff;font-weight:600;white-space:nowrap}
td.r{background:#bfdbfe}td.w{background:#fdba74}td.rw{background:#c4b5fd}tr.dead td:first-child{background:#fecaca}
svg text{font:11px system-ui,sans-serif;fill:#0f172a}svg .n{fill:#64748b;font-size:9.5px}svg .s{font-weight:600}
svg rect{stroke:#64748b;fill:#f1f5f9}.u0 rect{fill:#dbeafe}.u1 rect{fill:#dcfce7}.u2 rect{fill:#fef9c3}
.bad rect{fill:#fecaca;stroke:#dc2626;stroke-width:2}
path{fill:none;stroke:#94a3b8;stroke-width:1.2}path.pdl{stroke-dasharray:2 3}path.race{stroke:#dc2626;stroke-width:2.2;stroke-dasharray:6 4}
.kind{color:#b91c1c;font-weight:600;white-space:nowrap}.ok{color:#15803d;font-weight:600}.key span{padding:1px 7px;border-radius:4px;margin-right:6px}
</style>)";

std::string cell(const std::string& text, std::string_view style = "") {
  return (style.empty() ? "<td>" : "<td class='" + std::string(style) + "'>") + text + "</td>";
}

std::string where_text(const AuditedFinding& found) {
  std::string text;
  for (const std::string& part : place_parts(found)) {
    text += (text.empty() ? "" : ", ") + html_text(part);
  }
  return text;
}

std::string findings_html(const Audited& audited) {
  if (audited.findings.empty()) return "<h2>Findings</h2><p class='ok'>none</p>";
  std::string html =
      "<h2>Findings</h2><table><tr><th>kind</th><th>where</th><th>why</th><th>what to do</th></tr>";
  for (const AuditedFinding& found : audited.findings) {
    html += "<tr>" + cell(html_text(found.finding.kind), "kind") + cell(where_text(found)) +
            cell(html_text(found.finding.why)) + cell(html_text(found.finding.advice)) + "</tr>";
  }
  return html + "</table>";
}

std::string errors_html(const Audited& audited) {
  std::string rows;
  const auto add = [&](const StepReport& step, const std::string& kind, const std::string& why) {
    rows += "<tr>" + cell(std::to_string(step.index), "num") +
            cell(html_text(step.verb + " " + step.what)) + cell(html_text(kind), "kind") +
            cell(html_text(why)) + "</tr>";
  };
  for (const StepReport& step : audited.steps) {
    if (step.error) add(step, step.error->kind, step.error->why);
    for (const FailureReport& failure : step.failures) add(step, failure.kind, failure.why);
  }
  if (rows.empty()) return "";
  return "<h2>Errors and failures</h2><table><tr><th>step</th><th>verb</th><th>kind</th>"
         "<th>why</th></tr>" +
         rows + "</table>";
}

std::string map_html(const audit::RankRecord& rank, const audit::Graph& graph,
                     const audit::GraphUses& uses) {
  const std::size_t count = std::min(graph.nodes.size(), kMostNodesShown);
  std::string html =
      "<div class='scroll'><table class='map'><tr><th>buffer</th><th>address</th><th>bytes</th>"
      "<th>owner</th><th>is</th><th>life</th>";
  for (std::size_t i = 0; i < count; ++i) {
    html += "<th class='node'>" + std::to_string(i) + " " + html_text(graph.nodes[i].op) + "</th>";
  }
  html += "</tr>";
  for (const BakedBuffer& buffer : baked_buffers(rank, uses)) {
    const audit::Allocation& allocation = *buffer.allocation;
    char address[24];
    std::snprintf(address, sizeof(address), "0x%llx",
                  static_cast<unsigned long long>(allocation.address));
    html += allocation.ending == audit::Ending::kLive ? "<tr>" : "<tr class='dead'>";
    html += cell(html_text(allocation.name) + "@" + std::to_string(allocation.generation)) +
            cell(address, "num") + cell(std::to_string(allocation.size_bytes), "num") +
            cell(html_text(allocation.owner)) +
            cell(buffer.binding == nullptr ? "" : role_text(buffer.binding->role)) +
            cell(life_text(allocation));
    for (std::size_t i = 0; i < count; ++i) {
      const std::string mode = mode_text(buffer, static_cast<int>(i));
      html += "<td class='c " + mode + "'>" + mode + "</td>";
    }
    html += "</tr>";
  }
  return html + "</table></div>";
}

std::string graph_html(const Audited& audited, const ShownGraph& shown) {
  const audit::RankRecord& rank = *shown.rank;
  const audit::Graph& graph = *shown.graph;
  const audit::MemoryMap memory(rank.allocations);
  const audit::GraphUses uses(graph, memory);
  const std::map<int, std::string> kinds = kinds_of(audited, shown);
  std::string title = title_of(shown);
  title.front() = 'G';
  std::string html =
      "<h2>" + html_text(title) + ": " + std::to_string(graph.nodes.size()) + " nodes</h2>";
  if (graph.nodes.size() > kMostNodesShown) {
    html += "<p>The first " + std::to_string(kMostNodesShown) + " are shown.</p>";
  }
  return html + graph_svg(graph, uses, kinds) +
         "<h3>Buffer by node: who touches which bytes, in order of address</h3>"
         "<p class='key'><span style='background:#bfdbfe'>r reads</span>"
         "<span style='background:#fdba74'>w writes</span>"
         "<span style='background:#c4b5fd'>rw both</span>"
         "<span style='background:#fecaca'>given back or remapped</span></p>" +
         map_html(rank, graph, uses);
}

}  // namespace

std::string audit_html(const Audited& audited) {
  const std::string title =
      html_text(audited.file) + (audited.strategy.empty() ? "" : ", strategy " + audited.strategy);
  std::string html = "<!doctype html><html lang='en'><meta charset='utf-8'><title>Audit of " +
                     title + "</title>" + std::string(kStyle) + "<h1>Audit of " + title + "</h1>";
  html += findings_html(audited) + errors_html(audited);
  for (const ShownGraph& shown : shown_graphs(audited, false)) html += graph_html(audited, shown);
  return html + "</html>\n";
}

}  // namespace dcp
