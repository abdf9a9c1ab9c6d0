#include "harness/graph_file.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "audit/memory_map.hpp"
#include "harness/allocation_overlap.hpp"
#include "harness/json_node.hpp"

namespace dcp {

namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{512} << 20;
constexpr std::size_t kMaxNodes = 50000;  // of a graph: orders are kept for each pair
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

template <std::size_t N>
void allow(const JsonNode& node, const std::array<std::string_view, N>& fields) {
  node.refuse_unknown(fields);
}

std::string text_or(const JsonNode& node, std::string_view field, std::string otherwise) {
  const auto found = node.find(field);
  return found ? found->text() : std::move(otherwise);
}

struct Range {
  std::int64_t min = 0;
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};

std::int64_t integer_or(const JsonNode& node, std::string_view field, Range range,
                        std::int64_t otherwise) {
  const auto found = node.find(field);
  return found ? found->integer(range.min, range.max) : otherwise;
}

bool flag(const JsonNode& node, std::string_view field) {
  const auto found = node.find(field);
  return found && found->integer(0, 1) == 1;
}

template <class Word>
Word word_of(const JsonNode& node, const std::map<std::string, Word>& words) {
  const std::string text = node.text();
  const auto found = words.find(text);
  if (found != words.end()) return found->second;
  std::string known;
  for (const auto& [word, value] : words) known += (known.empty() ? "" : ", ") + word;
  node.refuse("'" + text + "' is none of " + known);
}

const std::map<std::string, audit::Ending> kEndings = {{"live", audit::Ending::kLive},
                                                       {"freed", audit::Ending::kFreed},
                                                       {"to_pool", audit::Ending::kToPool},
                                                       {"remapped", audit::Ending::kRemapped}};
const std::map<std::string, audit::Role> kRoles = {
    {"input", audit::Role::kInput},   {"metadata", audit::Role::kMetadata},
    {"state", audit::Role::kState},   {"scratch", audit::Role::kScratch},
    {"output", audit::Role::kOutput}, {"held", audit::Role::kHeld}};
const std::map<std::string, audit::Mode> kModes = {{"read", audit::Mode::kRead},
                                                   {"write", audit::Mode::kWrite},
                                                   {"read_write", audit::Mode::kReadWrite}};

void require_range(const JsonNode& node, std::uint64_t address, std::uint64_t size_bytes) {
  if (size_bytes > static_cast<std::uint64_t>(kMost) - address) {
    node.refuse("address and size_bytes reach past the end of memory");
  }
}

audit::Allocation read_allocation(const JsonNode& node, audit::RankRecord& rank) {
  constexpr std::array<std::string_view, 9> kFields = {
      "name", "owner", "generation", "address", "size_bytes", "born", "died", "ending", "role"};
  allow(node, kFields);
  audit::Allocation made{.id = static_cast<std::uint32_t>(rank.allocations.size()),
                         .name = text_or(node, "name", "allocation"),
                         .owner = text_or(node, "owner", "device")};
  made.address = static_cast<std::uint64_t>(node.at("address").integer(1, kMost));
  made.size_bytes = static_cast<std::uint64_t>(node.at("size_bytes").integer(1, kMost));
  require_range(node, made.address, made.size_bytes);
  const auto generations = std::count_if(
      rank.allocations.begin(), rank.allocations.end(), [&](const audit::Allocation& other) {
        return other.name == made.name && other.owner == made.owner;
      });
  made.generation = static_cast<std::uint32_t>(integer_or(
      node, "generation", {1, std::numeric_limits<std::uint32_t>::max()}, generations + 1));
  made.born = static_cast<audit::Moment>(integer_or(node, "born", {}, 0));
  if (const auto died = node.find("died")) {
    made.died =
        static_cast<audit::Moment>(died->integer(static_cast<std::int64_t>(made.born), kMost));
    made.ending = audit::Ending::kFreed;
  }
  if (const auto ending = node.find("ending")) {
    const audit::Ending read = word_of(*ending, kEndings);
    if ((read == audit::Ending::kLive) != (made.died == audit::kNever)) {
      ending->refuse("an allocation that is not live needs 'died', and only such a one has it");
    }
    made.ending = read;
  }
  made.is_host = made.owner == "pinned";
  return made;
}

// What a pointer means would depend on the order in the file.
void require_apart(const JsonNode& node, const std::vector<audit::Allocation>& allocations) {
  const auto overlap = first_overlap(allocations);
  if (!overlap) return;
  const audit::Allocation& later = *overlap->later;
  node.items()[later.id].refuse("has bytes of allocation " + std::to_string(overlap->earlier->id) +
                                ", '" + overlap->earlier->name + "', which is alive at moment " +
                                std::to_string(later.born) + " too");
}

void bind_role(const JsonNode& node, const audit::Allocation& allocation, audit::RankRecord& rank) {
  const auto role = node.find("role");
  if (!role) return;
  rank.bindings.push_back({.name = allocation.name,
                           .role = word_of(*role, kRoles),
                           .allocation = allocation.id,
                           .address = allocation.address,
                           .size_bytes = allocation.size_bytes});
}

int earlier_node(const JsonNode& node, int index) {
  const auto earlier = static_cast<int>(node.integer(0, kMaxNodes - 1));
  if (earlier == index) node.refuse("node " + std::to_string(index) + " depends on itself");
  if (earlier > index) {
    node.refuse("node " + std::to_string(index) + " depends on node " + std::to_string(earlier) +
                ", which is not an earlier one");
  }
  return earlier;
}

audit::Dependency read_dependency(const JsonNode& node, int index) {
  if (index == 0) node.refuse("the first node has no earlier one to depend on");
  if (!node.is_object()) return {.node = earlier_node(node, index)};
  constexpr std::array<std::string_view, 3> kFields = {"node", "programmatic", "waits"};
  allow(node, kFields);
  return {.node = earlier_node(node.at("node"), index),
          .is_programmatic = flag(node, "programmatic"),
          .consumer_waits = flag(node, "waits")};
}

audit::Access read_access(const JsonNode& node) {
  constexpr std::array<std::string_view, 4> kFields = {"address", "size_bytes", "mode", "argument"};
  allow(node, kFields);
  audit::Access access{.argument = text_or(node, "argument", "")};
  access.address = static_cast<std::uint64_t>(node.at("address").integer(1, kMost));
  access.size_bytes = static_cast<std::uint64_t>(node.at("size_bytes").integer(1, kMost));
  require_range(node, access.address, access.size_bytes);
  access.mode = word_of(node.at("mode"), kModes);
  return access;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The bytes of one argument, lowest address first, as little-endian words; the last is filled up
// with zeros.
void read_words(const JsonNode& node, std::vector<std::uint64_t>& words) {
  const std::string text = node.text();
  if (text.size() % 2 != 0) node.refuse("an odd number of hexadecimal digits");
  for (std::size_t byte = 0; byte < text.size() / 2; ++byte) {
    const int high = hex_digit(text[2 * byte]);
    const int low = hex_digit(text[2 * byte + 1]);
    if (high < 0 || low < 0)
      node.refuse("argument bytes are hexadecimal digits, two for each byte");
    if (byte % 8 == 0) words.push_back(0);
    words.back() |= static_cast<std::uint64_t>(high * 16 + low) << (byte % 8 * 8);
  }
}

// Every argument word that points into memory that is known. Nobody says how far the node goes.
void take_pointers(const audit::MemoryMap& memory, audit::Node& node) {
  node.has_declaration = false;
  for (std::size_t i = 0; i < node.words.size(); ++i) {
    const audit::Allocation* held = memory.meant_by(node.words[i], node.captured_at);
    if (held == nullptr) continue;
    node.accesses.push_back({.address = node.words[i],
                             .size_bytes = held->end() - node.words[i],
                             .mode = audit::Mode::kReadWrite,
                             .argument = "word " + std::to_string(i),
                             .is_declared = false});
  }
}

audit::Node read_node(const JsonNode& node, int index, audit::Moment captured_at,
                      const audit::MemoryMap& memory) {
  constexpr std::array<std::string_view, 10> kFields = {
      "op",       "stream",    "ubatch",   "captured_at",  "dependencies",
      "accesses", "arguments", "exchange", "communicator", "waits_for_peers"};
  allow(node, kFields);
  audit::Node made{.op = node.at("op").text(), .stream = text_or(node, "stream", "")};
  made.ubatch = static_cast<int>(integer_or(node, "ubatch", {-1, 1023}, -1));
  made.captured_at = static_cast<audit::Moment>(
      integer_or(node, "captured_at", {}, static_cast<std::int64_t>(captured_at)));
  made.exchange = text_or(node, "exchange", "");
  made.waits_for_peers = flag(node, "waits_for_peers") || !made.exchange.empty();
  made.communicator = static_cast<std::uint64_t>(integer_or(node, "communicator", {}, 0));
  if (const auto dependencies = node.find("dependencies")) {
    for (const JsonNode& each : dependencies->items()) {
      made.dependencies.push_back(read_dependency(each, index));
    }
  }
  if (const auto arguments = node.find("arguments")) {
    for (const JsonNode& each : arguments->items()) read_words(each, made.words);
  }
  if (const auto accesses = node.find("accesses")) {
    for (const JsonNode& each : accesses->items()) made.accesses.push_back(read_access(each));
  } else {
    take_pointers(memory, made);
  }
  return made;
}

audit::Graph read_graph(const JsonNode& node, const audit::RankRecord& rank,
                        const audit::MemoryMap& memory) {
  constexpr std::array<std::string_view, 5> kFields = {"name", "rows", "pool", "captured_at",
                                                       "nodes"};
  allow(node, kFields);
  audit::Graph graph{.name = node.at("name").text(),
                     .rows = integer_or(node, "rows", {}, 0),
                     .pool = text_or(node, "pool", "")};
  const auto captured_at = static_cast<audit::Moment>(node.at("captured_at").integer(0, kMost));
  const std::vector<JsonNode> nodes = node.at("nodes").items();
  if (nodes.size() > kMaxNodes) {
    node.at("nodes").refuse("more than " + std::to_string(kMaxNodes) + " nodes");
  }
  int index = 0;
  for (const JsonNode& each : nodes) {
    graph.nodes.push_back(read_node(each, index++, captured_at, memory));
  }
  for (const audit::Binding& binding : rank.bindings) {
    if (rank.allocations[binding.allocation].is_alive_at(captured_at)) {
      graph.bindings.push_back(binding);
    }
  }
  return graph;
}

// What the next step would use: of each name the latest that is live.
void keep_live_bindings(audit::RankRecord& rank) {
  std::erase_if(rank.bindings, [&](const audit::Binding& binding) {
    return rank.allocations[binding.allocation].ending != audit::Ending::kLive;
  });
}

audit::RankRecord read_rank(const JsonNode& node, int index, std::size_t& num_undeclared) {
  constexpr std::array<std::string_view, 3> kFields = {"rank", "allocations", "graphs"};
  allow(node, kFields);
  audit::RankRecord rank{.rank = static_cast<int>(integer_or(node, "rank", {0, 65535}, index))};
  for (const JsonNode& each : node.at("allocations").items()) {
    rank.allocations.push_back(read_allocation(each, rank));
    bind_role(each, rank.allocations.back(), rank);
  }
  require_apart(node.at("allocations"), rank.allocations);
  const audit::MemoryMap memory(rank.allocations);
  for (const JsonNode& each : node.at("graphs").items()) {
    rank.graphs.push_back(read_graph(each, rank, memory));
    const auto of_name = [&](const audit::Graph& other) {
      return other.name == rank.graphs.back().name;
    };
    if (std::count_if(rank.graphs.begin(), rank.graphs.end(), of_name) > 1) {
      each.at("name").refuse("another graph of the rank has this name");
    }
    for (const audit::Node& made : rank.graphs.back().nodes) {
      num_undeclared += made.has_declaration ? 0 : 1;
    }
  }
  keep_live_bindings(rank);
  return rank;
}

}  // namespace

GraphFile read_graph_file(const std::string& path) {
  const nlohmann::json json = read_json_file(path, kMaxFileBytes);
  const JsonNode root(json, path);
  constexpr std::array<std::string_view, 4> kFields = {"format", "version", "about", "ranks"};
  if (!root.is_object()) root.refuse("a graph record is an object with 'format' and 'ranks'");
  allow(root, kFields);
  if (const JsonNode format = root.at("format"); format.text() != "dcpsim-graph") {
    format.refuse("the format must be 'dcpsim-graph'");
  }
  root.at("version").integer(1, 1);
  GraphFile file;
  for (const JsonNode& rank : root.at("ranks").items()) {
    const auto index = static_cast<int>(file.record.ranks.size());
    file.record.ranks.push_back(read_rank(rank, index, file.num_undeclared_nodes));
    const int number = file.record.ranks.back().rank;
    const auto is_same = [&](const audit::RankRecord& other) { return other.rank == number; };
    if (std::ranges::count_if(file.record.ranks, is_same) == 1) continue;
    rank.refuse("another rank has the number " + std::to_string(number));
  }
  if (file.record.ranks.empty()) root.at("ranks").refuse("there must be a rank");
  return file;
}

}  // namespace dcp
