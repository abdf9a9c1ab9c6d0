#include "cli/graph_svg.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "core/printable_text.hpp"

namespace dcp {

namespace {

constexpr int kBoxWidth = 118;
constexpr int kBoxHeight = 34;
constexpr int kColumn = 150;
constexpr int kRow = 52;
constexpr int kLeft = 90;

struct Box {
  int x;
  int y;
};

struct Layout {
  std::vector<Box> boxes;              // by node
  std::map<std::string, int> streams;  // -> top
  int width = 0;
  int height = 0;
};

// A node stands right of everything that it depends on.
std::vector<int> levels_of(const audit::Graph& graph, std::size_t count) {
  std::vector<int> levels(count, 0);
  for (std::size_t i = 0; i < count; ++i) {
    for (const audit::Dependency& dependency : graph.nodes[i].dependencies) {
      levels[i] = std::max(levels[i], levels[static_cast<std::size_t>(dependency.node)] + 1);
    }
  }
  return levels;
}

Layout lay_out(const audit::Graph& graph, std::size_t count) {
  const std::vector<int> levels = levels_of(graph, count);
  std::map<std::pair<std::string, int>, int> used;  // stream and level -> nodes there
  std::map<std::string, int> depth;                 // of a stream's lane, in rows
  std::vector<int> slot(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& stream = graph.nodes[i].stream;
    slot[i] = used[{stream, levels[i]}]++;
    depth[stream] = std::max(depth[stream], slot[i] + 1);
  }
  Layout layout;
  layout.height = 14;
  for (const auto& [stream, rows] : depth) {
    layout.streams[stream] = layout.height;
    layout.height += rows * kRow + 10;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Box box{kLeft + levels[i] * kColumn,
                  layout.streams[graph.nodes[i].stream] + slot[i] * kRow};
    layout.width = std::max(layout.width, box.x + kBoxWidth + 20);
    layout.boxes.push_back(box);
  }
  return layout;
}

std::string number(int value) { return std::to_string(value); }

std::string line(const Box& from, const Box& to, std::string_view style) {
  const int x1 = from.x + kBoxWidth;
  const int y1 = from.y + kBoxHeight / 2;
  const int y2 = to.y + kBoxHeight / 2;
  const int bend = std::max(20, (to.x - x1) / 2);
  return "<path class='" + std::string(style) + "' d='M" + number(x1) + "," + number(y1) + " C" +
         number(x1 + bend) + "," + number(y1) + " " + number(to.x - bend) + "," + number(y2) + " " +
         number(to.x) + "," + number(y2) + "'/>";
}

std::string hazard_line(Box a, Box b) {
  const auto center = [](const Box& box) {
    return number(box.x + kBoxWidth / 2) + "," + number(box.y + kBoxHeight / 2);
  };
  return "<path class='race' d='M" + center(a) + " L" + center(b) + "'/>";
}

std::string box_svg(const audit::Node& node, int index, const Box& box, const std::string* kinds) {
  const std::string color = kinds != nullptr ? "bad" : "u" + number((node.ubatch + 4) % 4);
  return "<g class='" + color + "'><title>" + html_text(node.op) + ", ubatch " +
         number(node.ubatch) + (kinds == nullptr ? "" : ": " + html_text(*kinds)) +
         "</title><rect x='" + number(box.x) + "' y='" + number(box.y) + "' width='" +
         number(kBoxWidth) + "' height='" + number(kBoxHeight) + "' rx='5'/><text x='" +
         number(box.x + 6) + "' y='" + number(box.y + 14) + "' class='n'>" + number(index) +
         "</text><text x='" + number(box.x + 6) + "' y='" + number(box.y + 28) + "'>" +
         html_text(node.op.substr(0, 18)) + "</text></g>";
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string result;
  for (const char c : printable_text(text)) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '\'':
        result += "&#39;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string graph_svg(const audit::Graph& graph, const audit::GraphUses& uses,
                      const std::map<int, std::string>& kinds) {
  const std::size_t count = std::min(graph.nodes.size(), kMostNodesShown);
  const Layout layout = lay_out(graph, count);
  std::string svg = "<div class='scroll'><svg width='" + number(layout.width) + "' height='" +
                    number(layout.height) + "'>";
  for (const auto& [stream, top] : layout.streams) {
    svg += "<text x='4' y='" + number(top + 22) + "' class='s'>" + html_text(stream) + "</text>";
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (const audit::Dependency& dependency : graph.nodes[i].dependencies) {
      svg += line(layout.boxes[static_cast<std::size_t>(dependency.node)], layout.boxes[i],
                  dependency.is_programmatic ? "pdl" : "e");
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto found = kinds.find(static_cast<int>(i));
    svg += box_svg(graph.nodes[i], static_cast<int>(i), layout.boxes[i],
                   found == kinds.end() ? nullptr : &found->second);
  }
  std::set<std::pair<int, int>> drawn;
  for (const audit::Conflict& conflict : uses.conflicts()) {
    const auto first = static_cast<std::size_t>(conflict.first->node);
    const auto second = static_cast<std::size_t>(conflict.second->node);
    const bool is_new = drawn.insert({conflict.first->node, conflict.second->node}).second;
    if (!is_new || first >= count || second >= count) continue;
    svg += hazard_line(layout.boxes[first], layout.boxes[second]);
  }
  return svg + "</svg></div>";
}

}  // namespace dcp
