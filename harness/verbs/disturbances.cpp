#include "harness/verbs/disturbances.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"

namespace dcp {

namespace {

// Points of the direct exchanges, as `stall` names them.
constexpr std::string_view kExchangePoints[] = {"publish", "wait", "read"};

bool is_whole_exchange(std::string_view op) {
  return op == "direct_exchange" || op == "direct_lines";
}

// Of two nodes, the first ends with its flags, and the other begins with its wait. An exchange in
// one node is all of its points.
bool is_exchange_point(std::string_view wanted, std::string_view op) {
  if (is_whole_exchange(op)) return true;
  if (!op.starts_with("direct_")) return false;
  if (op.ends_with("_" + std::string(wanted))) return true;
  if (wanted == "publish") return op.ends_with("_send");
  return op.ends_with("_take");
}

bool is_named(std::string_view wanted, std::string_view op) {
  if (wanted == "attention") return op == "mla_attention" || op == "gqa_attention";
  const bool is_point = std::find(std::begin(kExchangePoints), std::end(kExchangePoints), wanted) !=
                        std::end(kExchangePoints);
  if (is_point) return is_exchange_point(wanted, op);
  if (wanted == "combine") {
    return op == "a2a_combine" || op == "lse_correct" || is_whole_exchange(op);
  }
  return wanted == op;
}

}  // namespace

void Disturbances::hold(Target target, std::string until) {
  all_holds_.push_back({target.op, std::move(until)});
  holds_.push_back({std::move(target), false, static_cast<int>(all_holds_.size()) - 1});
}

void Disturbances::begin_step(const std::string& name) {
  for (Hold& hold : all_holds_) hold.is_released |= !name.empty() && hold.until == name;
}

void Disturbances::end(std::vector<Wanted>& wanted, bool refused) {
  for (const Wanted& each : std::exchange(wanted, {})) {
    if (each.has_met || refused) continue;
    std::set<std::string> names;
    for (const auto& [rank, name] : met_) {
      if (!each.target.rank || *each.target.rank == rank) names.insert(name);
    }
    std::string known;
    for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
    throw InputError(each.target.place, "the next step has no operation '" + each.target.op +
                                            "' on the rank; there are: " + known);
  }
}

void Disturbances::end_step(bool is_capture, bool refused) {
  end(skips_, refused);
  if (is_capture) end(throws_, refused);
  if (!is_capture) end(holds_, refused);
  met_.clear();
}

void Disturbances::finish() const {
  for (const auto* wanted : {&skips_, &throws_, &holds_}) {
    for (const Wanted& each : *wanted) {
      throw InputError(each.target.place,
                       "no step follows that could have the operation '" + each.target.op + "'");
    }
  }
}

Disturbances::Wanted* Disturbances::find(std::vector<Wanted>& wanted, const Operation& operation) {
  for (Wanted& each : wanted) {
    const bool is_of_rank = !each.target.rank || *each.target.rank == operation.rank;
    if (!is_of_rank || !is_named(each.target.op, operation.name)) continue;
    each.has_met = true;
    return &each;
  }
  return nullptr;
}

Verdict Disturbances::judge(const Operation& operation) {
  met_.emplace(operation.rank, operation.name);
  if (operation.is_captured && find(throws_, operation) != nullptr) {
    throw Failure("rank_lost", operation.rank,
                  "rank " + std::to_string(operation.rank) + " throws at " +
                      std::string(operation.name) + " inside the capture");
  }
  if (find(skips_, operation) != nullptr) return {.kind = Verdict::kSkip};
  if (operation.is_captured) return {};
  const Wanted* held = find(holds_, operation);
  if (held == nullptr || is_released(held->hold)) return {};
  return {.kind = Verdict::kHold, .hold = held->hold};
}

bool Disturbances::is_released(int hold) const {
  return all_holds_[static_cast<std::size_t>(hold)].is_released;
}

std::string Disturbances::waits_for(int hold) const {
  const Hold& held = all_holds_[static_cast<std::size_t>(hold)];
  return held.op + ", which is stalled until step " + held.until;
}

}  // namespace dcp
