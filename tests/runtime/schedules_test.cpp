// Who decides: named schedules, and schedules as text.
#include <gtest/gtest.h>

#include <set>

#include "core/error.hpp"
#include "runtime/host/schedules/fixed_schedules.hpp"
#include "runtime/host/schedules/make_schedule.hpp"
#include "runtime/host/schedules/written_schedule.hpp"

namespace dcp {
namespace {

constexpr std::byte kMemory[64]{};

Choice store(Arrival::Kind kind, std::int64_t number, int from = 0) {
  Choice choice;
  choice.arrival = {
      .from = from, .to = 1 - from, .kind = kind, .number = number, .at = kMemory, .size_bytes = 4};
  return choice;
}

Choice task(TaskId id, const Task& of) { return {.task = &of, .id = id}; }

TEST(FixedSchedules, TheEarliestLetsStoresArriveInTheOrderInWhichTheyWereMade) {
  const Task any;
  EarliestStores earliest;
  const std::vector<Choice> choices{task(3, any), store(Arrival::kFlag, 9),
                                    store(Arrival::kLanding, 8)};
  EXPECT_EQ(earliest.choose(choices), 2u);
  EXPECT_EQ(earliest.choose(std::span(choices).first(2)), 1u);
  const std::vector<Choice> tasks{task(3, any), task(2, any)};
  EXPECT_EQ(earliest.choose(tasks), 1u);
}

TEST(FixedSchedules, TheLatestLetsAStoreArriveOnlyWhereNothingCanRun) {
  const Task any;
  LatestStores latest;
  const std::vector<Choice> choices{store(Arrival::kEffect, 1), store(Arrival::kLanding, 2),
                                    store(Arrival::kFlag, 3), task(7, any)};
  EXPECT_EQ(latest.choose(choices), 3u);
  EXPECT_EQ(latest.choose(std::span(choices).first(3)), 2u);
  EXPECT_EQ(latest.choose(std::span(choices).first(2)), 1u);
  EXPECT_EQ(latest.choose(std::span(choices).first(1)), 0u);
}

// Two streams, of 20 tasks and of one, that nothing orders. Returns how many ran before that one.
int place_of_the_one(SchedulePolicy& policy) {
  Task many;
  many.where = "many";
  Task one;
  one.where = "one";
  for (int done = 0; done < 20; ++done) {
    const std::vector<Choice> choices{task(done, many), task(100, one)};
    if (policy.choose(choices) == 1) return done;
  }
  return 20;
}

int num_last(std::string_view name) {
  int count = 0;
  for (std::uint64_t seed = 0; seed < 420; ++seed) {
    count += place_of_the_one(*make_schedule(name, seed)) == 20 ? 1 : 0;
  }
  return count;
}

// A uniform draw lets the one come last in 1 of 2^20 schedules, POS in 1 of 21, PCT in half of them
// that have no change of priority in between.
TEST(DrawnSchedules, PctAndPosMeetOrdersThatAUniformDrawDoesNot) {
  EXPECT_EQ(num_last("uniform"), 0);
  EXPECT_GT(num_last("pct"), 60);
  EXPECT_GT(num_last("pos"), 8);
  EXPECT_LT(num_last("pos"), 40);
}

TEST(DrawnSchedules, TheSeedDecidesAll) {
  for (const std::string_view name : {"uniform", "pct", "pos"}) {
    std::set<int> places;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const int place = place_of_the_one(*make_schedule(name, seed));
      EXPECT_EQ(place_of_the_one(*make_schedule(name, seed)), place) << name;
      places.insert(place);
    }
    EXPECT_GT(places.size(), 1u) << name;
  }
}

// Priorities fall at random moments of the stretch between two drains: in the order of a stream
// that has the higher one there is a place at which the other comes in between.
TEST(DrawnSchedules, PctChangesItsMindWithinAStretch) {
  std::set<int> places;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const auto policy = make_schedule("pct", seed);
    for (int i = 0; i < 20; ++i) place_of_the_one(*policy);
    policy->drained();
    places.insert(place_of_the_one(*policy));
  }
  EXPECT_GT(places.size(), 4u);
}

TEST(WrittenSchedules, RepetitionsAreCountedAndTheLastZerosLeftOut) {
  EXPECT_EQ(text_of({}), "0");
  EXPECT_EQ(text_of({0, 0}), "0");
  EXPECT_EQ(text_of({0, 0, 0, 3, 1, 12, 12, 0}), "0_3.3.1.12_2");
  for (const Decisions& decisions : {Decisions{1}, Decisions{0, 2, 2, 2, 40, 1}}) {
    EXPECT_EQ(parse_decisions(text_of(decisions)), decisions);
  }
}

TEST(WrittenSchedules, WhatIsNoScheduleIsRefused) {
  for (const char* text : {"", ".", "1.", "1..2", "_3", "1_", "1_x", "-1", "1 2", "0_99999999999",
                           "0_10000000.0", "4294967296", "pcd", "earliest."}) {
    EXPECT_FALSE(is_schedule(text)) << text;
  }
  for (const char* text : {"0", "0_3.2", "1_0", "latest", "pos"}) EXPECT_TRUE(is_schedule(text));
}

TEST(WrittenSchedules, WhatWasRecordedIsDoneAgain) {
  const auto drawn = make_schedule("pct", 5);
  RecordedSchedule recorded(*drawn);
  std::vector<int> places;
  for (int i = 0; i < 10; ++i) places.push_back(place_of_the_one(recorded));
  WrittenSchedule written(*parse_decisions(text_of(recorded.decisions())));
  for (const int place : places) EXPECT_EQ(place_of_the_one(written), place);
}

TEST(WrittenSchedules, AScheduleOfAnotherRunIsBadInput) {
  const Task any;
  WrittenSchedule written({0, 2});
  const std::vector<Choice> choices{task(0, any), task(1, any)};
  EXPECT_EQ(written.choose(choices), 0u);
  EXPECT_THROW(written.choose(choices), InputError);
}

}  // namespace
}  // namespace dcp
