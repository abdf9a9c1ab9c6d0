#include "harness/verbs/awaited_sets.hpp"

#include <algorithm>
#include <cassert>

#include "core/error.hpp"

namespace dcp {

namespace {

using StepKind = AwaitedSets::StepKind;

constexpr unsigned kCapture = static_cast<unsigned>(StepKind::kCapture);
constexpr unsigned kReplay = static_cast<unsigned>(StepKind::kReplay);
constexpr unsigned kEager = static_cast<unsigned>(StepKind::kEager);

// Which steps a key acts on, and which others forget it.
struct Takers {
  std::string_view key;
  unsigned taken_by;
  unsigned lost_by;
};

constexpr Takers kTakers[] = {
    {"epoch", kReplay | kEager, 0},
    {"lse_base", kCapture | kEager, 0},
    {"lse_dtype", kCapture | kEager, 0},
    {"slot_mapping", kReplay | kEager, kCapture},
    {"block_table", kReplay | kEager, kCapture},
    {"keep", kReplay | kEager, kCapture},
    {"keep_tail", kReplay | kEager, kCapture},
    {"ubatch", kCapture | kEager, 0},
    {"num_requests", kCapture | kEager, 0},
    {"workspace_ubatch", kCapture | kEager, 0},
    {"drop_edge", kCapture | kEager, 0},
    {"max_seq_len", kCapture, kEager},
    {"load_stream", kReplay, kCapture | kEager},
};

const Takers& takers_of(const std::string& key) {
  const auto* found = std::find_if(std::begin(kTakers), std::end(kTakers),
                                   [&](const Takers& each) { return each.key == key; });
  assert(found != std::end(kTakers));
  return *found;
}

std::string text_of(unsigned kinds) {
  std::string text;
  const auto add = [&](unsigned kind, std::string_view name) {
    if ((kinds & kind) != 0) text += (text.empty() ? "" : " or ") + std::string(name);
  };
  add(kCapture, "a capture");
  add(kReplay, "a replay of a graph");
  add(kEager, "an eager step");
  return text;
}

}  // namespace

void AwaitedSets::add(const verb::Set& what, std::optional<int> rank, const Place& place) {
  for (const Waiting& each : waiting_) {
    const bool is_same_rank = !each.rank || !rank || *each.rank == *rank;
    if (each.key != what.key || !is_same_rank) continue;
    throw InputError(place, "no step has taken the 'set." + what.key + "' of line " +
                                std::to_string(each.place.line) +
                                " yet: " + text_of(takers_of(what.key).taken_by) + " does");
  }
  waiting_.push_back({what.key, rank, place});
}

void AwaitedSets::meet(StepKind kind, const std::vector<int>& ranks) {
  const auto bit = static_cast<unsigned>(kind);
  std::erase_if(waiting_, [&](const Waiting& each) {
    const bool takes_part = !each.rank || ranks.empty() ||
                            std::find(ranks.begin(), ranks.end(), *each.rank) != ranks.end();
    if (!takes_part) return false;
    const Takers& takers = takers_of(each.key);
    if ((takers.lost_by & bit) != 0) {
      throw InputError(each.place, "'set." + each.key + "' acts on " + text_of(takers.taken_by) +
                                       ", and " + text_of(bit) + " comes first");
    }
    return (takers.taken_by & bit) != 0;
  });
}

void AwaitedSets::finish() const {
  if (waiting_.empty()) return;
  const Waiting& first = waiting_.front();
  throw InputError(first.place, "no step follows that takes 'set." + first.key +
                                    "': " + text_of(takers_of(first.key).taken_by) + " does");
}

}  // namespace dcp
