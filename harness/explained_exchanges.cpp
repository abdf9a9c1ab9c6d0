#include "harness/explained_exchanges.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/direct_advance.hpp"
#include "kernels/direct_exchange.hpp"
#include "kernels/direct_lines.hpp"

namespace dcp {

namespace {

template <Op O>
bool take_params(const GraphNode& node, typename O::Params& params) {
  if (node.op != &kOpInfo<O>) return false;
  std::memcpy(&params, node.params.data(), sizeof(params));
  return true;
}

// What the node advances; false: nothing.
bool take_advance(const GraphNode& node, DirectAdvance::Params& advance) {
  if (take_params<DirectAdvance>(node, advance)) return true;
  DirectExchange::Params exchange;
  if (take_params<DirectExchange>(node, exchange)) {
    advance = {.state = exchange.publish.state, .num_slots = exchange.publish.num_slots};
    return true;
  }
  DirectLines::Params lines;
  if (!take_params<DirectLines>(node, lines)) return false;
  advance = {.state = lines.state, .num_slots = lines.num_slots};
  return true;
}

}  // namespace

std::vector<ExplainedExchange> exchanges_of(const GraphRecord& record, const RankStep& step) {
  std::vector<ExplainedExchange> exchanges;
  if (step.ubatches.empty()) return exchanges;
  for (const GraphNode& node : record.nodes) {
    DirectAdvance::Params advance;
    if (!take_advance(node, advance)) continue;
    const auto& buffers = step.ubatches.front().buffers.all();
    const auto state = std::find_if(buffers.begin(), buffers.end(), [&](const auto& named) {
      return static_cast<const void*>(named.second.data) == advance.state;
    });
    if (state == buffers.end()) continue;  // another ubatch's
    const auto known =
        std::find_if(exchanges.begin(), exchanges.end(),
                     [&](const ExplainedExchange& each) { return each.epoch == state->first; });
    if (known != exchanges.end()) {
      ++known->per_replay;
    } else {
      exchanges.push_back({state->first, 1, static_cast<int>(advance.num_slots)});
    }
  }
  return exchanges;
}

}  // namespace dcp
