#include "runtime/host/schedules/written_schedule.hpp"

#include <charconv>

#include "core/error.hpp"

namespace dcp {

namespace {

constexpr std::uint64_t kMostDecisions = 10'000'000;

// Takes a number off the front.
bool take(std::string_view& text, std::uint64_t most, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value > most) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

std::string text_of(const Decisions& decisions) {
  std::size_t size = decisions.size();
  while (size > 0 && decisions[size - 1] == 0) --size;
  std::string text;
  for (std::size_t i = 0; i < size;) {
    std::size_t end = i + 1;
    while (end < size && decisions[end] == decisions[i]) ++end;
    text += (text.empty() ? "" : ".") + std::to_string(decisions[i]);
    if (end - i > 1) text += "_" + std::to_string(end - i);
    i = end;
  }
  return text.empty() ? "0" : text;
}

std::optional<Decisions> parse_decisions(std::string_view text) {
  Decisions decisions;
  while (true) {
    std::uint64_t choice = 0;
    std::uint64_t count = 1;
    if (!take(text, UINT32_MAX, choice)) return std::nullopt;
    if (text.starts_with('_')) {
      text.remove_prefix(1);
      if (!take(text, kMostDecisions, count)) return std::nullopt;
    }
    if (decisions.size() + count > kMostDecisions) return std::nullopt;
    decisions.insert(decisions.end(), count, static_cast<std::uint32_t>(choice));
    if (text.empty()) return decisions;
    if (!text.starts_with('.')) return std::nullopt;
    text.remove_prefix(1);
  }
}

std::size_t WrittenSchedule::choose(std::span<const Choice> choices) {
  if (next_ >= decisions_.size()) return 0;
  const std::uint32_t choice = decisions_[next_++];
  if (choice < choices.size()) return choice;
  throw InputError({.file = "dcpsim"}, "the schedule was written of another run: its decision " +
                                           std::to_string(next_ - 1) + " is choice " +
                                           std::to_string(choice) + ", and there are " +
                                           std::to_string(choices.size()));
}

std::size_t RecordedSchedule::choose(std::span<const Choice> choices) {
  const std::size_t choice = policy_.choose(choices);
  decisions_.push_back(static_cast<std::uint32_t>(choice));
  return choice;
}

}  // namespace dcp
