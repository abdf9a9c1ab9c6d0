#include "harness/audit/record_source.hpp"

#include <algorithm>
#include <cstring>
#include <map>

namespace dcp {

namespace {

audit::Address address_of(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }

audit::Ending ending_of(Ending ending) {
  switch (ending) {
    case Ending::kLive:
      return audit::Ending::kLive;
    case Ending::kFreed:
      return audit::Ending::kFreed;
    case Ending::kToPool:
      return audit::Ending::kToPool;
    case Ending::kRemapped:
      return audit::Ending::kRemapped;
  }
  return audit::Ending::kLive;
}

audit::Role role_of(BufferUse use) {
  switch (use) {
    case BufferUse::kInput:
      return audit::Role::kInput;
    case BufferUse::kMetadata:
      return audit::Role::kMetadata;
    case BufferUse::kState:
      return audit::Role::kState;
    case BufferUse::kScratch:
      return audit::Role::kScratch;
    case BufferUse::kOutput:
      return audit::Role::kOutput;
    case BufferUse::kHeld:
      return audit::Role::kHeld;
  }
  return audit::Role::kUnknown;
}

// Without the handle, which is neither a value nor memory.
std::vector<std::uint64_t> words_of(const std::vector<std::byte>& bytes, const void* handle) {
  std::vector<std::uint64_t> words((bytes.size() + 7) / 8, 0);
  if (!bytes.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
  if (handle != nullptr) {
    std::replace(words.begin(), words.end(), address_of(handle), std::uint64_t{0});
  }
  return words;
}

// The collectives of all ranks must match in what they are and how much they move.
void describe_exchange(audit::Node& node) {
  node.exchange = node.op;
  for (const audit::Access& access : node.accesses) {
    node.exchange += " " + access.argument + " " + std::to_string(access.size_bytes);
  }
}

int ubatch_of_stream(const std::string& stream) {
  const std::size_t digits = stream.find_first_of("0123456789");
  return digits == std::string::npos ? 0 : std::atoi(stream.c_str() + digits);
}

// The buffers that belong to one ubatch, by address: a plan of many ubatches has thousands of
// accesses, and hundreds of buffers.
class UbatchMemory {
 public:
  explicit UbatchMemory(const std::vector<audit::Binding>& bindings) {
    for (const audit::Binding& binding : bindings) {
      if (binding.ubatch < 0 || binding.name == "workspace") continue;
      ranges_.push_back({.begin = binding.address,
                         .end = binding.address + binding.size_bytes,
                         .ubatch = binding.ubatch});
    }
    std::ranges::sort(ranges_, {}, &Range::begin);
    audit::Address end = 0;
    for (Range& range : ranges_) range.last_end = end = std::max(end, range.end);
  }

  // One vote for each buffer that holds the address.
  void count(audit::Address address, std::map<int, int>& votes) const {
    auto range = std::ranges::upper_bound(ranges_, address, {}, &Range::begin);
    while (range != ranges_.begin() && address < (--range)->last_end) {
      if (address < range->end) ++votes[range->ubatch];
    }
  }

 private:
  struct Range {
    audit::Address begin;
    audit::Address end;
    int ubatch;
    audit::Address last_end = 0;  // of this range and of all that begin before it
  };
  std::vector<Range> ranges_;
};

// The ubatch whose own buffers the node touches most; of several, the one that its stream is of.
int ubatch_of(const audit::Node& node, const UbatchMemory& memory) {
  std::map<int, int> votes;
  for (const audit::Access& access : node.accesses) memory.count(access.address, votes);
  if (votes.empty()) return -1;
  const int of_stream = ubatch_of_stream(node.stream);
  int best = votes.begin()->first;
  for (const auto& [ubatch, count] : votes) {
    if (count > votes[best] || (count == votes[best] && ubatch == of_stream)) best = ubatch;
  }
  return best;
}

audit::Node node_record(const GraphNode& node) {
  audit::Node made;
  made.op = node.op->label == nullptr ? node.op->name : node.op->label(node.params.data());
  made.stream = node.stream;
  made.captured_at = node.captured_at;
  for (const int dependency : node.dependencies) made.dependencies.push_back({.node = dependency});
  std::vector<Access> accesses;
  node.op->accesses(node.params.data(), accesses);
  for (const Access& access : accesses) made.accesses.push_back(audit_access(access));
  const void* handle = node.op->handle == nullptr ? nullptr : node.op->handle(node.params.data());
  made.words = words_of(node.params, handle);
  made.waits_for_peers = node.op->ready != nullptr;
  if (node.op->label == nullptr) return made;
  describe_exchange(made);
  made.waits_for_peers = true;
  made.communicator = address_of(handle);
  return made;
}

}  // namespace

audit::Access audit_access(const Access& access) {
  return {.address = address_of(access.data),
          .size_bytes = access.size_bytes,
          .mode = access.mode == Mode::kRead    ? audit::Mode::kRead
                  : access.mode == Mode::kWrite ? audit::Mode::kWrite
                                                : audit::Mode::kReadWrite,
          .argument = std::string(access.argument),
          .is_declared = true,
          .is_indexed = access.is_indexed};
}

void follow_ledger(const Ledger& ledger, int step, audit::RankRecord& rank) {
  const auto& all = ledger.all();
  for (std::size_t i = 0; i < rank.allocations.size(); ++i) {
    audit::Allocation& known = rank.allocations[i];
    if (known.ending != audit::Ending::kLive || all[i].live) continue;
    known.ending = ending_of(all[i].ending);
    known.died = all[i].died;
    known.died_in_step = step;
  }
  for (std::size_t i = rank.allocations.size(); i < all.size(); ++i) {
    const Allocation& fresh = all[i];
    rank.allocations.push_back({.id = fresh.id,
                                .name = fresh.name,
                                .owner = fresh.owner,
                                .generation = fresh.generation,
                                .address = address_of(fresh.data),
                                .size_bytes = fresh.size_bytes,
                                .born = fresh.born,
                                .died = fresh.live ? audit::kNever : fresh.died,
                                .ending = ending_of(fresh.ending),
                                .is_host = fresh.owner == "pinned",
                                .born_in_step = step,
                                .died_in_step = fresh.live ? -1 : step});
  }
}

std::vector<audit::Binding> bindings_of(const std::vector<NamedBuffer>& buffers) {
  std::vector<audit::Binding> bindings;
  for (const NamedBuffer& named : buffers) {
    bindings.push_back({.name = named.name,
                        .ubatch = named.ubatch,
                        .role = role_of(named.use),
                        .allocation = named.buffer.id,
                        .address = address_of(named.buffer.data),
                        .size_bytes = named.buffer.size_bytes});
  }
  return bindings;
}

audit::Graph graph_record(const EngineStep& step, const GraphRecord& record,
                          std::vector<audit::Binding> bindings,
                          const std::vector<PlannedOp>& plan) {
  audit::Graph graph{.name = step.name, .rows = step.rows, .pool = record.pool};
  graph.bindings = std::move(bindings);
  const UbatchMemory memory(graph.bindings);
  for (const GraphNode& node : record.nodes) {
    graph.nodes.push_back(node_record(node));
    graph.nodes.back().ubatch = ubatch_of(graph.nodes.back(), memory);
  }
  for (const PlannedOp& op : plan) {
    audit::Node planned{
        .op = op.name, .stream = op.stream, .words = words_of(op.params, op.handle)};
    for (const Access& access : op.accesses) planned.accesses.push_back(audit_access(access));
    if (op.is_collective) planned.exchange = op.name;
    planned.ubatch = ubatch_of(planned, memory);
    graph.plan.push_back(std::move(planned));
  }
  return graph;
}

}  // namespace dcp
