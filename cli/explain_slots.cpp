#include "cli/explain_slots.hpp"

#include <ostream>

#include "cli/text_table.hpp"
#include "core/printable_text.hpp"

namespace dcp {

namespace {

constexpr std::size_t kMostSlots = 8;

std::string slots_text(const ExplainedExchange& exchange, std::int64_t epoch) {
  const auto slots = slots_of_replay(exchange, epoch);
  std::string text;
  for (std::size_t i = 0; i < slots.size() && i < kMostSlots; ++i) {
    text += (i == 0 ? "" : " ") + std::to_string(slots[i]);
  }
  return slots.size() > kMostSlots ? text + " ..." : text;
}

}  // namespace

std::vector<std::int64_t> slots_of_replay(const ExplainedExchange& exchange, std::int64_t epoch) {
  std::vector<std::int64_t> slots;
  for (std::int64_t i = 1; i <= exchange.per_replay; ++i) {
    slots.push_back((epoch + i) % exchange.num_slots);
  }
  return slots;
}

void print_slots(std::ostream& out, const ExplainedGraph& graph) {
  if (graph.exchanges.empty()) return;
  out << "  slots of " << printable_text(graph.name)
      << ", layer by layer, where nothing else has advanced the epoch\n";
  TextTable table({"epoch", "a replay", "slots", "replay 1", "replay 2", "after k replays"});
  for (const ExplainedExchange& exchange : graph.exchanges) {
    const std::string count = std::to_string(exchange.per_replay);
    table.add({exchange.epoch, count, std::to_string(exchange.num_slots), slots_text(exchange, 0),
               slots_text(exchange, exchange.per_replay),
               exchange.per_replay == 1 ? "k" : count + " k"});
  }
  table.print(out, "  ");
}

}  // namespace dcp
