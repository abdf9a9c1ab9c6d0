#include "tests/conformance/difference.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace dcp::conformance {

namespace {

// docs/CONFORMANCE.md has the same list, with more words.
constexpr std::array<KnownDifference, 0> kKnown = {};

std::string call_name(const Call& call) {
  std::string text(name(call.verb));
  if (call.verb == Verb::kApiCall) {
    text += " " + std::string(name(call.api));
    if (call.thread == CallingThread::kOther) text += " from another thread";
  }
  return text;
}

std::string kind_of(const Call& call, const std::string& simulator, const std::string& other) {
  const auto is_graph = [](const std::string& answer) { return answer.starts_with("ok "); };
  if (is_graph(simulator) && is_graph(other)) return "end: another graph";
  const auto brief = [&](const std::string& answer) { return is_graph(answer) ? "ok" : answer; };
  return call_name(call) + ": simulator " + brief(simulator) + ", other " + brief(other);
}

std::string hex(const std::byte* bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < kSlotBytes; ++i) {
    text += kDigits[std::to_integer<int>(bytes[i] >> 4)];
    text += kDigits[std::to_integer<int>(bytes[i] & std::byte{15})];
    if (i % 4 == 3) text += ' ';
  }
  return text;
}

}  // namespace

std::optional<Difference> compare(const Played& played, const MakeWorld& make_other) {
  const auto& [program, transcript] = played;
  Player other(make_other());
  for (std::size_t i = 0; i < program.calls.size(); ++i) {
    const std::string answer = other.play(program.calls[i]).text;
    if (answer == transcript.answers[i]) continue;
    other.finish();
    return Difference{.kind = kind_of(program.calls[i], transcript.answers[i], answer),
                      .call = i,
                      .simulator = transcript.answers[i],
                      .other = answer};
  }
  const auto slots = other.finish();
  for (const Call& call : program.calls) {
    const auto offset = static_cast<std::size_t>(call.id) * kSlotBytes;
    const std::byte* mine = transcript.slots.data() + offset;
    if (std::memcmp(mine, slots.data() + offset, kSlotBytes) == 0) continue;
    return Difference{.kind = "bytes of " + std::string(name(call.verb)),
                      .call = program.calls.size(),
                      .simulator = "slot " + std::to_string(call.id) + ": " + hex(mine),
                      .other = hex(slots.data() + offset)};
  }
  return std::nullopt;
}

Played shrink(Played played, const std::string& kind, const MakeWorld& make_other) {
  for (std::size_t chunk = (played.program.calls.size() + 1) / 2; chunk > 0;) {
    bool shrunk = false;
    for (std::size_t first = 0; first < played.program.calls.size();) {
      auto calls = played.program.calls;
      const auto begin = calls.begin() + static_cast<std::ptrdiff_t>(first);
      const auto end =
          calls.begin() + static_cast<std::ptrdiff_t>(std::min(first + chunk, calls.size()));
      calls.erase(begin, end);
      Played smaller = play_allowed(played.program.seed, calls, played.program.seed);
      const auto difference = compare(smaller, make_other);
      if (difference && difference->kind == kind) {
        played = std::move(smaller);
        shrunk = true;
      } else {
        first += chunk;
      }
    }
    if (!shrunk || chunk > 1) chunk /= 2;
  }
  return played;
}

std::string text(const Played& played, const Difference& difference) {
  std::string lines;
  const auto& calls = played.program.calls;
  for (std::size_t i = 0; i < calls.size() && i <= difference.call; ++i) {
    lines += "  " + text(calls[i]) + "  => " + played.transcript.answers[i] + "\n";
  }
  return lines + "  simulator: " + difference.simulator + "\n  other:     " + difference.other +
         "\n";
}

std::span<const KnownDifference> known_differences() { return kKnown; }

bool is_known(const Difference& difference) {
  return std::any_of(kKnown.begin(), kKnown.end(),
                     [&](const KnownDifference& known) { return known.kind == difference.kind; });
}

}  // namespace dcp::conformance
