// The memory model of the simulated machine: when a store to a peer is in effect.
#include "runtime/host/stores_in_flight.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace dcp {
namespace {

class StoresInFlightTest : public testing::Test {
 protected:
  void store(int from, int to, std::uint32_t& at, std::uint32_t value) {
    stores_.store({from, to}, &at, &value, sizeof(value));
  }
  void flag(int from, int to, std::uint32_t& at, std::uint32_t value) {
    stores_.store_release({from, to}, &at, value);
  }

  std::optional<std::size_t> find(const std::uint32_t& at) const {
    for (std::size_t i = 0; i < stores_.count(); ++i) {
      if (stores_.at(i).at == reinterpret_cast<const std::byte*>(&at)) return i;
    }
    return std::nullopt;
  }
  bool may_happen(const std::uint32_t& at) const { return find(at).has_value(); }
  Arrival::Kind happen(const std::uint32_t& at) {
    const std::size_t i = find(at).value();
    const Arrival::Kind kind = stores_.at(i).kind;
    stores_.happen(i);
    return kind;
  }

  std::uint32_t a_ = 0;
  std::uint32_t b_ = 0;
  std::uint32_t flag_ = 0;
  StoresInFlight stores_{3};
};

TEST_F(StoresInFlightTest, AStoreIsInEffectOnceItIsThereAndItsTargetAcquires) {
  store(0, 1, a_, 7);
  stores_.acquire(1);
  EXPECT_EQ(a_, 0u);  // not there
  EXPECT_EQ(happen(a_), Arrival::kLanding);
  EXPECT_EQ(a_, 0u);
  stores_.acquire(2);
  EXPECT_EQ(a_, 0u);  // another rank's
  stores_.acquire(1);
  EXPECT_EQ(a_, 7u);
  EXPECT_EQ(stores_.count(), 0u);
}

TEST_F(StoresInFlightTest, AStoreThatIsThereMayBeInEffectWithoutAnAcquire) {
  store(0, 1, a_, 7);
  happen(a_);
  EXPECT_EQ(happen(a_), Arrival::kEffect);
  EXPECT_EQ(a_, 7u);
  EXPECT_EQ(stores_.count(), 0u);
}

TEST_F(StoresInFlightTest, StoresToOtherAddressesOvertakeEachOther) {
  store(0, 1, a_, 7);
  store(0, 1, b_, 8);
  happen(b_);
  stores_.acquire(1);
  EXPECT_EQ(b_, 8u);
  EXPECT_EQ(a_, 0u);
  EXPECT_TRUE(may_happen(a_));
}

TEST_F(StoresInFlightTest, StoresToOneAddressKeepTheirOrder) {
  store(0, 1, a_, 7);
  EXPECT_FALSE(stores_.at(0).holds_up);
  store(0, 1, a_, 8);
  EXPECT_EQ(stores_.count(), 1u);
  EXPECT_TRUE(stores_.at(0).holds_up);
  happen(a_);
  happen(a_);
  EXPECT_EQ(a_, 7u);
  happen(a_);
  stores_.acquire(1);
  EXPECT_EQ(a_, 8u);
}

TEST_F(StoresInFlightTest, TheBytesAreThoseOfTheMomentOfTheStore) {
  std::uint32_t value = 7;
  stores_.store({0, 1}, &a_, &value, sizeof(value));
  value = 9;
  happen(a_);
  stores_.acquire(1);
  EXPECT_EQ(a_, 7u);
}

TEST_F(StoresInFlightTest, AFlagIsBehindAllThatItsRankStoredBeforeToWhomever) {
  store(0, 2, a_, 7);
  store(0, 1, b_, 8);
  flag(0, 1, flag_, 1);
  EXPECT_FALSE(may_happen(flag_));
  happen(b_);
  EXPECT_FALSE(may_happen(flag_));
  happen(a_);
  EXPECT_EQ(happen(flag_), Arrival::kFlag);
  EXPECT_EQ(flag_, 1u);
  EXPECT_EQ(b_, 0u);  // there; in effect with the acquire
  stores_.acquire(1);
  EXPECT_EQ(b_, 8u);
}

TEST_F(StoresInFlightTest, WhatIsPolledIsInEffectWhenItGetsThereAndWaitsForNothing) {
  store(0, 1, a_, 7);
  const std::uint32_t value = 8;
  stores_.store_polled({0, 1}, &b_, &value, sizeof(value));
  flag(0, 1, flag_, 1);
  EXPECT_EQ(happen(b_), Arrival::kFlag);
  EXPECT_EQ(b_, 8u);
  EXPECT_EQ(a_, 0u);
  EXPECT_FALSE(may_happen(flag_));  // behind the store of a
}

TEST_F(StoresInFlightTest, AFlagIsBehindWhatIsPolledToo) {
  const std::uint32_t value = 8;
  stores_.store_polled({0, 1}, &b_, &value, sizeof(value));
  flag(0, 1, flag_, 1);
  EXPECT_FALSE(may_happen(flag_));
  happen(b_);
  EXPECT_TRUE(may_happen(flag_));
}

TEST_F(StoresInFlightTest, AFlagWaitsForNobodyElse) {
  store(2, 1, a_, 7);
  flag(0, 1, flag_, 1);
  store(0, 1, b_, 8);
  EXPECT_TRUE(may_happen(flag_));
  EXPECT_TRUE(may_happen(b_));
}

TEST_F(StoresInFlightTest, WithoutReleaseAFlagOvertakes) {
  stores_.keep({.release = false});
  store(0, 1, a_, 7);
  flag(0, 1, flag_, 1);
  EXPECT_TRUE(may_happen(flag_));
}

TEST_F(StoresInFlightTest, WithoutAcquireALoadMayFindTheOldValue) {
  stores_.keep({.acquire = false});
  store(0, 1, a_, 7);
  happen(a_);
  stores_.acquire(1);
  EXPECT_EQ(a_, 0u);
  EXPECT_TRUE(may_happen(a_));
}

TEST_F(StoresInFlightTest, WhatIsForgottenDoesNotArrive) {
  store(0, 1, a_, 7);
  store(0, 1, b_, 8);
  happen(a_);
  stores_.forget();
  stores_.acquire(1);
  EXPECT_EQ(stores_.count(), 0u);
  EXPECT_EQ(a_, 0u);
  flag(0, 1, flag_, 1);  // nothing is before it
  EXPECT_TRUE(may_happen(flag_));
}

}  // namespace
}  // namespace dcp
