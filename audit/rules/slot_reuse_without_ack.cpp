// A node stores to memory of all ranks where a peer may still be reading what was stored there
// before: no exchange of all ranks lies between that reading and the store. What a peer does is
// taken from this rank's graph, as all ranks have the same.
//
//   store i -> read it -> exchange that begins after -> exchange ends -> store i + slots
//
// Slots are used in turn, across launches too; launches of a graph follow each other. Nothing is
// known of the order inside a node: one that publishes and reads tells nobody that it has read, and
// one that waits and stores need not have waited before. So with two slots it is the exchange
// between that tells it, whether an exchange is one node or many, and with one slot another one has
// to.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "audit/describe.hpp"
#include "audit/rules/rules.hpp"

namespace dcp::audit {

namespace {

// Stores to the own copy of a buffer that all ranks have, in the order of the graph.
struct Stores {
  std::vector<const Use*> uses = {};  // one of each node
  std::size_t num_slots = 0;
};

// All ranks meet: whoever has gone past `end` knows that every rank has come to `begin`, and so has
// completed what precedes it. Both may be one node.
struct Exchange {
  int begin = 0;
  int end = 0;
};

// A node that writes with one argument to its own memory and to some that no allocation of the rank
// holds, which is that of its peers. The own part has the slots once each.
std::map<std::uint32_t, Stores> stores_to_all(const GraphScope& scope) {
  struct Writes {
    std::vector<const Use*> own = {};
    bool has_peers = false;
  };
  std::map<std::pair<int, std::string>, Writes> writes;
  for (const Use& use : scope.uses.all()) {
    if (!use.access->writes() || !use.access->is_declared) continue;
    Writes& mine = writes[{use.node, use.access->argument}];
    if (use.allocation) mine.own.push_back(&use);
    mine.has_peers |= !use.allocation;
  }
  std::map<std::uint32_t, Stores> stores;
  for (const auto& [key, mine] : writes) {
    if (!mine.has_peers || mine.own.empty()) continue;
    Stores& to = stores[*mine.own.front()->allocation];
    to.uses.push_back(mine.own.front());
    to.num_slots = mine.own.size();
  }
  return stores;
}

// The last of the stores that comes before the node or is the node, which stores before it reads;
// none: -1.
int last_before(const GraphScope& scope, const Stores& stores, int node) {
  int last = -1;
  for (std::size_t i = 0; i < stores.uses.size(); ++i) {
    const int store = stores.uses[i]->node;
    if (store == node || scope.uses.order().precedes(store, node)) last = static_cast<int>(i);
  }
  return last;
}

// Collectives, and waits with the stores of flags that they wait for.
std::vector<Exchange> exchanges_of(const GraphScope& scope,
                                   const std::map<std::uint32_t, Stores>& stores) {
  std::vector<Exchange> exchanges;
  for (std::size_t i = 0; i < scope.graph.nodes.size(); ++i) {
    const Node& node = scope.graph.nodes[i];
    const int index = static_cast<int>(i);
    if (node.waits_for_peers && !node.exchange.empty()) exchanges.push_back({index, index});
  }
  for (const Use& use : scope.uses.all()) {
    if (!scope.node(use).waits_for_peers || !use.access->reads() || !use.allocation) continue;
    const auto flags = stores.find(*use.allocation);
    if (flags == stores.end()) continue;
    const int published = last_before(scope, flags->second, use.node);
    if (published < 0) continue;
    const auto at = static_cast<std::size_t>(published);
    exchanges.push_back({flags->second.uses[at]->node, use.node});
  }
  return exchanges;
}

// Whether an exchange lies between the reader, in launch 0, and the store, in launch `launch`.
bool is_acknowledged(const GraphScope& scope, const std::vector<Exchange>& exchanges, int reader,
                     int store, std::size_t launch) {
  if (launch > 1) return !exchanges.empty();  // a whole launch lies between
  const GraphOrder& order = scope.uses.order();
  return std::any_of(exchanges.begin(), exchanges.end(), [&](const Exchange& exchange) {
    const bool begins_after = order.precedes(reader, exchange.begin);
    const bool ends_before = order.precedes(exchange.end, store);
    return launch == 0 ? begins_after && ends_before : begins_after || ends_before;
  });
}

}  // namespace

void find_slot_reuses(const GraphScope& scope, Findings& found) {
  const auto all_stores = stores_to_all(scope);
  if (all_stores.empty()) return;
  const std::vector<Exchange> exchanges = exchanges_of(scope, all_stores);
  std::set<std::uint32_t> reported;
  for (const Use& read : scope.uses.all()) {
    if (!read.access->reads() || !read.allocation) continue;
    const auto entry = all_stores.find(*read.allocation);
    if (entry == all_stores.end() || reported.count(entry->first) > 0) continue;
    const Stores& stores = entry->second;
    const int filled = last_before(scope, stores, read.node);
    if (filled < 0) continue;
    const std::size_t next = static_cast<std::size_t>(filled) + stores.num_slots;
    const std::size_t launch = next / stores.uses.size();
    const Use& store = *stores.uses[next % stores.uses.size()];
    if (is_acknowledged(scope, exchanges, read.node, store.node, launch)) continue;
    reported.insert(entry->first);
    Finding finding = finding_at("slot_reuse_without_ack", scope, store);
    finding.why = node_text(scope.graph, read.node) + " reads " + finding.buffer + ", and " +
                  node_text(scope.graph, store.node) + (launch == 0 ? "" : " of the next launch") +
                  " stores there on every rank, with no exchange between that tells that all "
                  "ranks have read";
    finding.advice = "let an exchange of all ranks, as that of a combine, come between the two";
    found.push_back(std::move(finding));
  }
}

}  // namespace dcp::audit
