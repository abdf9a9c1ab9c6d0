#include "tests/strategies/all_interleavings.hpp"

#include <algorithm>
#include <numeric>

namespace dcp::test {

namespace {

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::uint64_t event_of(const Choice& choice) {
  if (choice.task != nullptr) {
    return mix(2 * static_cast<std::uint64_t>(choice.id) + (choice.has_arrived ? 1 : 0) + 1);
  }
  const Arrival& arrival = choice.arrival;
  return mix((static_cast<std::uint64_t>(arrival.number) * 64 +
              static_cast<std::uint64_t>(arrival.from) * 4 + arrival.kind) |
             (std::uint64_t{1} << 63));
}

bool is_read(const Choice& choice) {
  return choice.task != nullptr && choice.task->op != nullptr &&
         choice.task->op->name == DirectRead::kName;
}

bool is_unnoticed(const Choice& choice) {
  return choice.task != nullptr && !choice.has_arrived && !is_read(choice);
}

// The choices that have to be tried.
std::vector<std::size_t> tried_of(std::span<const Choice> choices, bool all) {
  std::vector<std::size_t> tried(all ? choices.size() : 0);
  std::iota(tried.begin(), tried.end(), std::size_t{0});
  if (all) return tried;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (is_unnoticed(choices[i])) return {i};
    const bool is_effect =
        choices[i].task == nullptr && choices[i].arrival.kind == Arrival::kEffect;
    const bool is_seen = std::any_of(choices.begin(), choices.end(), [&](const Choice& other) {
      return is_read(other) && other.task->rank == choices[i].arrival.to;
    });
    if (!is_effect || is_seen || choices[i].arrival.holds_up) tried.push_back(i);
  }
  return tried.empty() ? std::vector<std::size_t>{0} : tried;
}

}  // namespace

// Takes the path's choices, then the first one of each state that is new.
class AllInterleavings::Follower final : public SchedulePolicy {
 public:
  explicit Follower(AllInterleavings& all) : all_(all) {}
  void hash_with(Hash hash) { hash_ = std::move(hash); }

  std::size_t choose(std::span<const Choice> choices) override {
    const std::vector<std::size_t> tried = tried_of(choices, all_.tries_all_);
    std::size_t choice = tried.front();
    if (tried.size() > 1) {
      if (depth_ == all_.path_.size()) come_to(choices, tried.size());
      choice = tried[all_.path_[depth_++].next];
    }
    done_ ^= event_of(choices[choice]);
    return choice;
  }

 private:
  void come_to(std::span<const Choice> choices, std::size_t num_tried) {
    std::uint64_t next = 0;
    for (const Choice& choice : choices) next ^= mix(event_of(choice));
    const std::uint64_t state = mix(done_ + mix(next)) ^ hash_();
    ++all_.explored_.num_steps;
    if (const auto known = all_.paths_.find(state); known != all_.paths_.end()) {
      all_.leave(known->second);
      throw Known();
    }
    all_.path_.push_back({state, num_tried, 0, 0});
  }

  AllInterleavings& all_;
  Hash hash_;
  std::size_t depth_ = 0;
  std::uint64_t done_ = 0;
};

// The choice that was tried last is done, over so many paths. Goes on to the next that is not.
void AllInterleavings::leave(double paths) {
  while (!path_.empty()) {
    Node& node = path_.back();
    node.paths += paths;
    if (++node.next < node.num_choices) return;
    paths = node.paths;
    paths_.emplace(node.state, paths);
    path_.pop_back();
  }
  explored_.num_interleavings = paths;
}

Explored AllInterleavings::explore(const Run& run) {
  do {
    Follower follower(*this);
    try {
      const ExchangeOutcome outcome =
          run(follower, [&](Hash hash) { follower.hash_with(std::move(hash)); });
      explored_.ends.insert(outcome.text());
      leave(1);
    } catch (const Known&) {
    }
  } while (!path_.empty());
  explored_.num_states = paths_.size();
  return explored_;
}

}  // namespace dcp::test
