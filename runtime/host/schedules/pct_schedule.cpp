#include "runtime/host/schedules/pct_schedule.hpp"

#include <algorithm>

namespace dcp {

PctSchedule::PctSchedule(std::uint64_t seed, int depth) : random_(seed), depth_(depth) {
  draw_changes();
}

void PctSchedule::draw_changes() {
  changes_.clear();
  for (int i = 1; i < depth_; ++i) changes_.insert(random_() % longest_);
}

void PctSchedule::drained() {
  longest_ = std::max(longest_, num_decisions_);
  num_decisions_ = 0;
  priorities_.clear();
  draw_changes();
}

PctSchedule::Thread PctSchedule::thread_of(const Choice& choice) {
  if (choice.task == nullptr) {
    const Arrival& arrival = choice.arrival;
    return {arrival.from, arrival.to, std::to_string(arrival.number)};
  }
  const Task& task = *choice.task;
  return {task.rank, -1, task.stream.empty() ? task.where : std::string(task.stream)};
}

// Priorities that were drawn are above those of threads that fell, which are below depth.
std::uint64_t& PctSchedule::priority(const Choice& choice) {
  const auto [at, is_new] = priorities_.try_emplace(thread_of(choice), 0);
  if (is_new) {
    at->second = static_cast<std::uint64_t>(depth_) + random_() / 2;
  }
  return at->second;
}

std::size_t PctSchedule::choose(std::span<const Choice> choices) {
  const auto highest = [&] {
    std::size_t best = 0;
    for (std::size_t i = 1; i < choices.size(); ++i) {
      if (priority(choices[i]) > priority(choices[best])) best = i;
    }
    return best;
  };
  const std::uint64_t now = num_decisions_++;
  while (!changes_.empty() && *changes_.begin() <= now) {
    priority(choices[highest()]) = changes_.size();  // the later, the lower
    changes_.erase(changes_.begin());
  }
  return highest();
}

}  // namespace dcp
