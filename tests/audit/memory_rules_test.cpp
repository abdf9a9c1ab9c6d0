// Hazards that a graph and the allocations prove together, and those of several ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "audit/memory_map.hpp"
#include "record_builder.hpp"

namespace dcp::audit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// One node that writes a workspace.
RecordBuilder with_workspace() {
  RecordBuilder build;
  const auto workspace = build.buffer("workspace", 64, Role::kScratch);
  build.node("pack", {build.write(workspace)});
  return build;
}

TEST(MemoryRules, BufferThatWasGivenBackAfterTheCaptureIsStale) {
  RecordBuilder build = with_workspace();
  build.end(0, Ending::kFreed, 20);
  const auto found = audit(build.record());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, "stale_pointer");
  EXPECT_EQ(found[0].buffer, "workspace");
  EXPECT_EQ(found[0].generation, 1u);
}

TEST(MemoryRules, ReplacementIsNamed) {
  RecordBuilder build = with_workspace();
  build.end(0, Ending::kFreed, 20);
  build.rank().allocations.push_back({.id = 1,
                                      .name = "workspace",
                                      .generation = 2,
                                      .address = 0x9000,
                                      .size_bytes = 128,
                                      .born = 21});
  build.rank().bindings.push_back({.name = "workspace", .role = Role::kScratch, .allocation = 1});
  EXPECT_THAT(audit(build.record()).at(0).why, HasSubstr("generation 2 of 128 bytes"));
}

TEST(MemoryRules, BufferThatWasGivenBackBeforeTheNodeIsUsedAfterFree) {
  RecordBuilder build = with_workspace();
  build.end(0, Ending::kFreed, 5);
  EXPECT_THAT(build.kinds(), ElementsAre("use_after_free"));
}

TEST(MemoryRules, WhatACaptureLeavesToItsPoolIsStillTheGraphs) {
  RecordBuilder build = with_workspace();
  build.end(0, Ending::kToPool, 20);
  EXPECT_THAT(build.kinds(), IsEmpty());
}

TEST(MemoryRules, KeptBufferOnABlockOfThePoolAliases) {
  RecordBuilder build = with_workspace();
  build.end(0, Ending::kToPool, 20);
  build.rank().allocations.push_back(
      {.id = 1, .name = "kept", .owner = "pool", .address = 0x1000, .size_bytes = 64, .born = 21});
  const auto found = audit(build.record());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, "pool_alias");
  EXPECT_EQ(found[0].buffer, "kept");
}

TEST(MemoryRules, SharedScratchIsReleasedForEachGraph) {
  RecordBuilder build = with_workspace();
  Graph other = build.graph();
  other.name = "other";
  build.rank().graphs.push_back(other);
  build.end(0, Ending::kFreed, 20);
  EXPECT_THAT(build.kinds(), ElementsAre("shared_scratch_released", "shared_scratch_released"));
}

TEST(MemoryRules, HostMemoryOfACapturedCopyMustStay) {
  RecordBuilder build = with_workspace();
  build.rank().allocations[0].is_host = true;
  build.end(0, Ending::kFreed, 20);
  EXPECT_THAT(build.kinds(), ElementsAre("stale_host_source"));
}

TEST(MemoryRules, OtherMemoryMattersWhereSomethingWasKept) {
  RecordBuilder scratch = with_workspace();
  scratch.end(0, Ending::kRemapped, 20);
  EXPECT_THAT(scratch.kinds(), IsEmpty()) << "it is written anew in each launch";

  RecordBuilder cache;
  const auto kv_cache = cache.buffer("kv_cache", 64, Role::kState);
  cache.node("attention", {cache.read(kv_cache)});
  cache.end(kv_cache, Ending::kRemapped, 20);
  EXPECT_THAT(cache.kinds(), ElementsAre("backing_changed"));

  RecordBuilder exchanged = with_workspace();
  exchanged.end(0, Ending::kRemapped, 20);
  exchanged.graph().nodes[0].exchange = "all_to_all";
  EXPECT_THAT(exchanged.kinds(), ElementsAre("backing_changed")) << "peers have registered it";
}

TEST(MemoryRules, MetadataThatIsLoadedElsewhereIsRebound) {
  RecordBuilder build;
  const auto lengths = build.buffer("seq_lens", 64, Role::kMetadata);
  build.node("attention", {build.read(lengths)});
  build.rank().allocations.push_back({.id = 1,
                                      .name = "seq_lens",
                                      .generation = 2,
                                      .address = 0x9000,
                                      .size_bytes = 64,
                                      .born = 20});
  build.rank().bindings = {{.name = "seq_lens", .role = Role::kMetadata, .allocation = 0}};
  EXPECT_THAT(build.kinds(), IsEmpty());
  build.rank().bindings[0].allocation = 1;
  EXPECT_THAT(build.kinds(), ElementsAre("rebound_metadata"));
}

TEST(MemoryRules, RanksMustMakeTheSameExchanges) {
  RecordBuilder build;
  build.node("all_gather", {});
  build.graph().nodes[0].exchange = "all_gather 64";
  build.record().ranks.push_back(build.rank());
  build.rank(1).rank = 1;
  EXPECT_THAT(build.kinds(), IsEmpty());

  build.graph(1).nodes[0].exchange = "all_gather 32";
  const auto found = audit(build.record());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, "rank_divergence");
  EXPECT_EQ(found[0].rank, 1);

  build.graph(1).nodes.clear();
  EXPECT_THAT(build.kinds(), ElementsAre("rank_divergence"));
}

TEST(MemoryMap, AnAddressMeansWhatHeldItThen) {
  std::vector<Allocation> all = {
      {.id = 0, .name = "first", .address = 100, .size_bytes = 50, .born = 1, .died = 5},
      {.id = 1, .name = "second", .address = 100, .size_bytes = 20, .born = 6},
      {.id = 2, .name = "large", .address = 0, .size_bytes = 1000, .born = 2, .died = 3}};
  const MemoryMap map(all);
  EXPECT_EQ(map.meant_by(110, 4)->name, "first");
  EXPECT_EQ(map.meant_by(110, 7)->name, "second");
  EXPECT_EQ(map.meant_by(130, 7)->name, "first") << "nobody holds it any more: who held it last";
  EXPECT_EQ(map.meant_by(10, 2)->name, "large");
  EXPECT_EQ(map.meant_by(2000, 7), nullptr);
  EXPECT_EQ(map.overlapping(115, 125).size(), 3u);
}

}  // namespace
}  // namespace dcp::audit
