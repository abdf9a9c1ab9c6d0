// Partial-order sampling (Yuan, Yang, Gu, CAV 2018): each event that may happen has a random
// priority, the highest happens, and events that conflict with it draw theirs anew. So every order
// of the conflicts has its chance, however many events that conflict with nothing lie between.
//
// Two events conflict where they touch the same bytes and one of them writes, and where a row gets
// to a rank that acquires.
#pragma once

#include <map>
#include <random>

#include "runtime/host/schedule_policy.hpp"

namespace dcp {

class PosSchedule final : public SchedulePolicy {
 public:
  explicit PosSchedule(std::uint64_t seed) : random_(seed) {}

  std::size_t choose(std::span<const Choice> choices) override;
  void drained() override { events_.clear(); }

 private:
  struct Touch {
    const std::byte* begin;
    const std::byte* end;
    bool writes;
  };
  struct Event {
    std::uint64_t priority = 0;
    std::vector<Touch> touches;
    int acquires = -1;  // rank that takes note of what has got there
    int lands_at = -1;  // rank that something gets to
  };
  // Of a task: its id, whether it has arrived, -1. Of a store: number, kind, sender.
  using Key = std::tuple<std::int64_t, int, int>;

  static Key key_of(const Choice& choice);
  static Event event_of(const Choice& choice);
  static bool conflict(const Event& a, const Event& b);

  std::mt19937_64 random_;
  std::map<Key, Event> events_;
};

}  // namespace dcp
