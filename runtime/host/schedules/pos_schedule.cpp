#include "runtime/host/schedules/pos_schedule.hpp"

#include <algorithm>

namespace dcp {

PosSchedule::Key PosSchedule::key_of(const Choice& choice) {
  if (choice.task != nullptr) return {choice.id, choice.has_arrived ? 1 : 0, -1};
  return {choice.arrival.number, choice.arrival.kind, choice.arrival.from};
}

PosSchedule::Event PosSchedule::event_of(const Choice& choice) {
  Event event;
  if (choice.task == nullptr) {
    const Arrival& arrival = choice.arrival;
    if (arrival.kind == Arrival::kLanding) event.lands_at = arrival.to;
    if (arrival.kind != Arrival::kLanding) {
      event.touches.push_back({arrival.at, arrival.at + arrival.size_bytes, true});
    }
    return event;
  }
  const Task& task = *choice.task;
  if (choice.has_arrived) event.acquires = task.rank;
  if (task.op == nullptr) return event;
  std::vector<Access> accesses;
  task.op->accesses(task.params, accesses);
  for (const Access& access : accesses) {
    if (access.size_bytes == 0) continue;
    const auto* begin = static_cast<const std::byte*>(access.data);
    event.touches.push_back({begin, begin + access.size_bytes, access.mode != Mode::kRead});
  }
  return event;
}

bool PosSchedule::conflict(const Event& a, const Event& b) {
  if (a.acquires >= 0 && a.acquires == b.lands_at) return true;
  if (b.acquires >= 0 && b.acquires == a.lands_at) return true;
  return std::any_of(a.touches.begin(), a.touches.end(), [&](const Touch& mine) {
    return std::any_of(b.touches.begin(), b.touches.end(), [&](const Touch& other) {
      return (mine.writes || other.writes) && mine.begin < other.end && other.begin < mine.end;
    });
  });
}

std::size_t PosSchedule::choose(std::span<const Choice> choices) {
  std::vector<Event*> pending;
  for (const Choice& choice : choices) {
    const auto [at, is_new] = events_.try_emplace(key_of(choice));
    if (is_new) {
      at->second = event_of(choice);
      at->second.priority = random_();
    }
    pending.push_back(&at->second);
  }
  const auto highest =
      std::max_element(pending.begin(), pending.end(),
                       [](const Event* a, const Event* b) { return a->priority < b->priority; });
  for (Event* other : pending) {
    if (other != *highest && conflict(**highest, *other)) other->priority = random_();
  }
  const auto chosen = static_cast<std::size_t>(highest - pending.begin());
  events_.erase(key_of(choices[chosen]));
  return chosen;
}

}  // namespace dcp
