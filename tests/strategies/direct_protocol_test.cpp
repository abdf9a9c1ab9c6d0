// The direct exchange in every order of its events, and with one mistake at a time: each is seen,
// and what is left out of the memory model is missed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/host/schedules/make_schedule.hpp"
#include "tests/strategies/all_interleavings.hpp"
#include "tests/strategies/ruled_exchange.hpp"

namespace dcp::test {
namespace {

using Ends = std::set<std::string>;
using testing::Contains;

TEST(DirectProtocol, UpToThreeExchangesAreRightInEveryOrder) {
  double num_interleavings = 0;
  for (const int count : {1, 2, 3}) {
    const Explored explored = explore_all<DirectOps>({.num_exchanges = count});
    EXPECT_EQ(explored.ends, Ends{"right"});
    EXPECT_GT(explored.num_interleavings, num_interleavings);
    num_interleavings = explored.num_interleavings;
    const std::string suffix = "_of_" + std::to_string(count);
    RecordProperty("states" + suffix, std::to_string(explored.num_states));
    RecordProperty("interleavings" + suffix, std::to_string(num_interleavings));
  }
  EXPECT_GT(num_interleavings, 1e10);
}

TEST(DirectProtocol, TheRuledOperationsAreThoseOfTheEngineWhereNoRuleIsBroken) {
  const Explored ruled = explore_all<RuledOps<SoundRule>>({.num_exchanges = 2});
  const Explored engine = explore_all<DirectOps>({.num_exchanges = 2});
  EXPECT_EQ(ruled.ends, engine.ends);
  EXPECT_EQ(ruled.num_states, engine.num_states);
  EXPECT_EQ(ruled.num_interleavings, engine.num_interleavings);
}

TEST(DirectProtocol, NothingIsWrongAtTheWrapOfTheEpoch) {
  const ExchangeCase wraps{.num_exchanges = 2, .last_epoch = 0xFFFFFFFEu};
  EXPECT_EQ(explore_all<DirectOps>(wraps).ends, Ends{"right"});
}

TEST(DirectProtocol, WithoutReleaseRowsAreReadBeforeTheyAreThere) {
  const ExchangeCase weak{.num_exchanges = 1, .order = {.release = false}};
  EXPECT_EQ(explore_all<DirectOps>(weak).ends, (Ends{"right", "wrong in 0"}));
}

TEST(DirectProtocol, WithoutAcquireRowsAreReadAsTheyWereBefore) {
  const ExchangeCase weak{.num_exchanges = 1, .order = {.acquire = false}};
  EXPECT_EQ(explore_all<DirectOps>(weak).ends, (Ends{"right", "wrong in 0"}));
}

TEST(DirectProtocol, FlagsComparedWithNotBelowAreWrongOnlyAtTheWrap) {
  using Ops = RuledOps<NotBelow>;
  EXPECT_EQ(explore_all<Ops>({.num_exchanges = 2, .last_epoch = 2}).ends, Ends{"right"});
  const ExchangeCase wraps{.num_exchanges = 2, .last_epoch = 0xFFFFFFFEu};
  EXPECT_THAT(explore_all<Ops>(wraps).ends, Contains("wrong in 1"));
}

TEST(DirectProtocol, AFlagThatIsNotIndexedBySlotIsOverwrittenBeforeItIsSeen) {
  EXPECT_EQ(explore_all<RuledOps<OneFlag>>({.num_exchanges = 1}).ends, Ends{"right"});
  EXPECT_EQ(explore_all<RuledOps<OneFlag>>({.num_exchanges = 2}).ends,
            (Ends{"right", "wait_timeout"}));
}

TEST(DirectProtocol, OneSlotIsOverwrittenByAFasterPeer) {
  EXPECT_EQ(explore_all<RuledOps<OneSlot>>({.num_exchanges = 1}).ends, Ends{"right"});
  EXPECT_EQ(explore_all<RuledOps<OneSlot>>({.num_exchanges = 2}).ends,
            (Ends{"right", "wrong in 0"}));
}

// Exchanges 1, 2, 3 of the first replay of the graph are right.
TEST(DirectProtocol, ASlotByTheHostsParityIsWrongBetweenReplays) {
  using Ops = RuledOps<HostParity>;
  EXPECT_EQ(explore_all<Ops>({.num_exchanges = 2, .last_epoch = 1}).ends, Ends{"right"});
  EXPECT_EQ(explore_all<Ops>({.num_exchanges = 2, .last_epoch = 2}).ends,
            (Ends{"right", "wait_timeout", "wrong in 0"}));
}

TEST(DirectProtocol, AFrozenFlagIsWrongInTheSecondReplay) {
  using Ops = RuledOps<FrozenFlag>;
  EXPECT_EQ(explore_all<Ops>({.num_exchanges = 2, .last_epoch = 0}).ends, Ends{"right"});
  EXPECT_THAT(explore_all<Ops>({.num_exchanges = 1, .last_epoch = 3}).ends, Contains("wrong in 0"));
}

TEST(DirectProtocol, ATagThatRepeatsDoesNotWait) {
  EXPECT_THAT(explore_all<RuledOps<RepeatingTag>>({.num_exchanges = 1, .last_epoch = 4}).ends,
              Contains("wrong in 0"));
}

// Rank 1 has no keys, so that nothing that rank 0 reads too early counts. But two exchanges later
// rank 0 stores into the slot that rank 1 may not have read.
TEST(DirectProtocol, ASkippedWaitShowsTwoExchangesLater) {
  using Ops = RuledOps<SkippedWait<2>>;
  ExchangeCase skips{.num_exchanges = 2, .empty_ranks = {1}};
  EXPECT_EQ(explore_all<Ops>(skips).ends, Ends{"right"});
  skips.num_exchanges = 3;
  EXPECT_EQ(explore_all<Ops>(skips).ends, (Ends{"right", "wait_timeout", "wrong in 0"}));
}

TEST(DirectProtocol, WhatIsNotTriedMakesNoDifference) {
  const auto expect_same = [](const Explored& few, const Explored& all) {
    EXPECT_EQ(few.ends, all.ends);
    EXPECT_LT(few.num_states, all.num_states);
  };
  for (const MemoryOrder order : {MemoryOrder{}, {.release = false}, {.acquire = false}}) {
    const ExchangeCase one{.num_exchanges = 1, .order = order};
    expect_same(explore_all<DirectOps>(one), explore_all<DirectOps>(one, true));
    using Ops = RuledOps<RepeatingTag>;
    expect_same(explore_all<Ops>(one), explore_all<Ops>(one, true));
  }
}

// How many of `num_seeds` schedules of that name show the mistake.
template <class Ops>
int num_seen(const ExchangeCase& asked, std::string_view name, int num_seeds) {
  int seen = 0;
  for (int seed = 0; seed < num_seeds; ++seed) {
    const auto schedule = make_schedule(name, static_cast<std::uint64_t>(seed));
    seen += ExchangeWorld<Ops>(asked).run(*schedule).is_right() ? 0 : 1;
  }
  return seen;
}

template <class Ops>
void expect_seen_by_drawing(const char* what, const ExchangeCase& asked) {
  SCOPED_TRACE(what);
  int most = 0;
  std::string counts = what;
  for (const std::string_view name : kScheduleNames) {
    const bool draws = name != "earliest" && name != "latest";
    const int seen = num_seen<Ops>(asked, name, draws ? 200 : 1);
    if (draws) most = std::max(most, seen);
    counts += " " + std::string(name) + " " + std::to_string(seen);
  }
  testing::Test::RecordProperty(what, counts);
  EXPECT_GE(most, 5) << counts;
}

TEST(DirectProtocol, DrawnSchedulesSeeEachMistake) {
  const ExchangeCase six{.num_exchanges = 6};
  expect_seen_by_drawing<DirectOps>("no_release",
                                    {.num_exchanges = 6, .order = {.release = false}});
  expect_seen_by_drawing<DirectOps>("no_acquire",
                                    {.num_exchanges = 6, .order = {.acquire = false}});
  expect_seen_by_drawing<RuledOps<NotBelow>>("not_below_at_the_wrap",
                                             {.num_exchanges = 6, .last_epoch = 0xFFFFFFFCu});
  expect_seen_by_drawing<RuledOps<OneFlag>>("one_flag", six);
  expect_seen_by_drawing<RuledOps<OneSlot>>("one_slot", six);
  expect_seen_by_drawing<RuledOps<HostParity>>("host_parity", six);
  expect_seen_by_drawing<RuledOps<FrozenFlag>>("frozen_flag", six);
  expect_seen_by_drawing<RuledOps<RepeatingTag>>("repeating_tag", six);
  expect_seen_by_drawing<RuledOps<SkippedWait<2>>>("skipped_wait",
                                                   {.num_exchanges = 6, .empty_ranks = {1}});
}

TEST(DirectProtocol, NoScheduleSeesAMistakeWhereThereIsNone) {
  for (const int world_size : {2, 3, 5}) {
    for (const std::string_view name : kScheduleNames) {
      EXPECT_EQ(num_seen<DirectOps>({.world_size = world_size, .num_exchanges = 8}, name, 20), 0)
          << name;
    }
  }
}

}  // namespace
}  // namespace dcp::test
