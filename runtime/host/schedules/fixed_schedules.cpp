#include "runtime/host/schedules/fixed_schedules.hpp"

#include <algorithm>
#include <tuple>

namespace dcp {

namespace {

template <class Key>
std::size_t first_by(std::span<const Choice> choices, Key key) {
  const auto first =
      std::min_element(choices.begin(), choices.end(),
                       [&](const Choice& a, const Choice& b) { return key(a) < key(b); });
  return static_cast<std::size_t>(first - choices.begin());
}

using Rank = std::tuple<int, std::int64_t, int, int>;

Rank of_arrival(int urgency, const Arrival& arrival) {
  return {urgency, arrival.number, arrival.from, arrival.to};
}

}  // namespace

std::size_t EarliestStores::choose(std::span<const Choice> choices) {
  return first_by(choices, [](const Choice& choice) -> Rank {
    if (choice.task == nullptr) return of_arrival(0, choice.arrival);
    return {1, choice.id, 0, 0};
  });
}

std::size_t LatestStores::choose(std::span<const Choice> choices) {
  return first_by(choices, [](const Choice& choice) -> Rank {
    if (choice.task != nullptr) return {0, choice.id, 0, 0};
    const Arrival& arrival = choice.arrival;
    const int urgency = arrival.kind == Arrival::kFlag      ? 1
                        : arrival.kind == Arrival::kLanding ? 2
                                                            : 3;
    return of_arrival(urgency, arrival);
  });
}

}  // namespace dcp
