// Hazards that a graph proves by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "record_builder.hpp"

namespace dcp::audit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(GraphRules, OrderedWriteAndReadAreSound) {
  RecordBuilder build;
  const auto scratch = build.buffer("scratch", 64, Role::kScratch);
  const auto out = build.buffer("out", 64, Role::kOutput);
  const int first = build.node("pack", {build.write(scratch)});
  build.node("combine", {build.read(scratch), build.write(out)}, {first});
  EXPECT_THAT(build.kinds(), IsEmpty());
}

TEST(GraphRules, WriteAndReadWithoutAPathAreUnordered) {
  RecordBuilder build;
  const auto scratch = build.buffer("scratch", 64, Role::kScratch);
  build.node("pack", {build.write(scratch)});
  build.node("combine", {build.read(scratch)});
  const auto found = audit(build.record());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, "unordered_access");
  EXPECT_EQ(found[0].node, "pack");
  EXPECT_EQ(found[0].buffer, "scratch");
  EXPECT_THAT(found[0].why, HasSubstr("no path of edges orders them"));
}

TEST(GraphRules, TwoReadersNeedNoOrder) {
  RecordBuilder build;
  const auto input = build.buffer("seq_lens", 64, Role::kMetadata);
  build.node("attention", {build.read(input)});
  build.node("pack", {build.read(input)});
  EXPECT_THAT(build.kinds(), IsEmpty());
}

TEST(GraphRules, NeighbouringBytesDoNotConflict) {
  RecordBuilder build;
  const auto out = build.buffer("out", 64, Role::kOutput);
  build.node("layer 0", {build.access(out, Mode::kWrite, 0, 32)});
  build.node("layer 1", {build.access(out, Mode::kWrite, 32, 32)});
  EXPECT_THAT(build.kinds(), IsEmpty());
}

// A gather whose buffer all ranks have, what reads it, and an exchange behind that.
struct GatherGraph {
  RecordBuilder build;
  std::uint32_t target = build.buffer("q_gathered", 64, Role::kState);
  std::uint32_t flags = build.buffer("signals", 64, Role::kState);
  int last = -1;

  int add(const std::string& op, std::vector<Access> accesses) {
    last =
        build.node(op, std::move(accesses), last < 0 ? std::vector<int>{} : std::vector<int>{last});
    return last;
  }
  // The own part, `num_slots` times, and the peer's.
  void store(const std::string& op, std::uint32_t to, int num_slots = 1) {
    std::vector<Access> accesses;
    for (int slot = 0; slot < num_slots; ++slot) {
      const auto offset = static_cast<std::uint64_t>(slot) * 8;
      accesses.push_back(build.access(to, Mode::kWrite, offset, 8));
      accesses.push_back(accesses.back());
      accesses.back().address += 0x100000;
    }
    add(op, accesses);
  }
  void wait() {
    add("wait", {build.access(flags, Mode::kRead, 0, 16)});
    build.graph().nodes.back().waits_for_peers = true;
  }
  void gather() {
    store("store", target);
    store("publish", flags, 2);
    wait();
  }
  // All of an exchange and what reads its rows in one node.
  void exchange_in_one_node(int num_slots) {
    const auto bytes = static_cast<std::uint64_t>(num_slots) * 8;
    store("exchange", target, num_slots);
    Node& node = build.graph().nodes.back();
    for (int slot = 0; slot < num_slots; ++slot) {
      const auto offset = static_cast<std::uint64_t>(slot) * 8;
      node.accesses.push_back(build.access(flags, Mode::kWrite, offset, 8));
      node.accesses.push_back(node.accesses.back());
      node.accesses.back().address += 0x100000;
    }
    node.accesses.push_back(build.access(flags, Mode::kRead, 0, bytes));
    node.accesses.push_back(build.access(target, Mode::kRead, 0, bytes));
    node.waits_for_peers = true;
  }
  void attend() { add("attention", {build.access(target, Mode::kRead, 0, 8)}); }
  void meet() {
    add("all_to_all", {});
    build.graph().nodes.back().exchange = "all_to_all";
    build.graph().nodes.back().waits_for_peers = true;
  }
};

TEST(GraphRules, AGatherMayReuseItsBufferOnceAllRanksHaveMet) {
  GatherGraph graph;
  for (int layer = 0; layer < 2; ++layer) {
    graph.gather();
    graph.attend();
    graph.meet();
  }
  EXPECT_THAT(graph.build.kinds(), IsEmpty());
}

TEST(GraphRules, AGatherWithoutAMeetingBeforeMayStoreUnderAReader) {
  GatherGraph graph;
  graph.gather();
  graph.attend();
  graph.gather();
  graph.attend();
  graph.meet();
  const auto found = audit(graph.build.record());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, "slot_reuse_without_ack");
  EXPECT_EQ(found[0].buffer, "q_gathered");
  EXPECT_THAT(found[0].why, HasSubstr("attention (node 3, stream compute) reads q_gathered, and "
                                      "store (node 4, stream compute) stores there"));
}

TEST(GraphRules, TheNextLaunchStoresUnderTheLastReaderToo) {
  GatherGraph graph;
  graph.gather();
  graph.meet();
  graph.attend();
  EXPECT_THAT(graph.build.kinds(), ElementsAre("slot_reuse_without_ack"));
  GatherGraph meets_first;
  meets_first.meet();
  meets_first.gather();
  meets_first.attend();
  EXPECT_THAT(meets_first.build.kinds(), IsEmpty());
}

TEST(GraphRules, TwoSlotsNeedOneExchangeBetween) {
  GatherGraph graph;
  for (int exchange = 0; exchange < 3; ++exchange) {
    graph.store("store", graph.target, 2);
    graph.store("publish", graph.flags, 2);
    graph.wait();
    graph.add("read", {graph.build.access(graph.target, Mode::kRead, 0, 16)});
  }
  EXPECT_THAT(graph.build.kinds(), IsEmpty());
  GatherGraph without_wait;
  for (int exchange = 0; exchange < 3; ++exchange) {
    without_wait.store("store", without_wait.target, 2);
    without_wait.store("publish", without_wait.flags, 2);
    without_wait.add("read", {without_wait.build.access(without_wait.target, Mode::kRead, 0, 16)});
  }
  EXPECT_THAT(without_wait.build.kinds(), ElementsAre("slot_reuse_without_ack"));
}

TEST(GraphRules, OneNodeThatPublishesBeforeItReadsDoesNotAcknowledgeItsReading) {
  for (int num_exchanges = 1; num_exchanges <= 3; ++num_exchanges) {
    GatherGraph graph;
    for (int i = 0; i < num_exchanges; ++i) graph.exchange_in_one_node(1);
    const auto found = audit(graph.build.record());
    ASSERT_EQ(found.size(), 2u) << num_exchanges;  // the flags and the rows
    for (const Finding& finding : found) {
      EXPECT_EQ(finding.kind, "slot_reuse_without_ack");
      EXPECT_EQ(finding.node, "exchange");
    }
  }
}

TEST(GraphRules, TheNextExchangeAcknowledgesOneNodeOfTwoSlotsOrMore) {
  for (const int num_slots : {2, 3, 5}) {
    for (int num_exchanges = 1; num_exchanges <= 6; ++num_exchanges) {
      GatherGraph graph;
      for (int i = 0; i < num_exchanges; ++i) graph.exchange_in_one_node(num_slots);
      EXPECT_THAT(graph.build.kinds(), IsEmpty()) << num_slots << " slots, " << num_exchanges;
    }
  }
}

TEST(GraphRules, AMeetingAcknowledgesOneNodeOfOneSlot) {
  GatherGraph graph;
  for (int layer = 0; layer < 2; ++layer) {
    graph.exchange_in_one_node(1);
    graph.meet();
  }
  EXPECT_THAT(graph.build.kinds(), IsEmpty());
  GatherGraph not_after_the_last;
  not_after_the_last.exchange_in_one_node(1);
  not_after_the_last.meet();
  not_after_the_last.exchange_in_one_node(1);
  EXPECT_THAT(not_after_the_last.build.kinds(),
              ElementsAre("slot_reuse_without_ack", "slot_reuse_without_ack"));
}

// A rank is through an exchange when it has what it was sent: others may still be sent to.
TEST(GraphRules, ACollectiveDoesNotAcknowledgeItsOwnReading) {
  GatherGraph graph;
  graph.store("store", graph.target);
  graph.meet();
  graph.build.graph().nodes.back().accesses = {graph.build.access(graph.target, Mode::kRead, 0, 8)};
  EXPECT_THAT(graph.build.kinds(), ElementsAre("slot_reuse_without_ack"));
  graph.meet();
  EXPECT_THAT(graph.build.kinds(), IsEmpty());
}

TEST(GraphRules, ProgrammaticEdgeOrdersOnlyWhatTheConsumerWaitsFor) {
  RecordBuilder build;
  const auto scratch = build.buffer("scratch", 64, Role::kScratch);
  build.node("pack", {build.write(scratch)});
  build.node("combine", {build.read(scratch)});
  Node& consumer = build.graph().nodes[1];
  consumer.dependencies = {{.node = 0, .is_programmatic = true}};
  EXPECT_THAT(build.kinds(), ElementsAre("unordered_access"));
  consumer.dependencies[0].consumer_waits = true;
  EXPECT_THAT(build.kinds(), IsEmpty());
}

TEST(GraphRules, ProgrammaticEdgePassesOnWhatCameBeforeTheProducer) {
  RecordBuilder build;
  const auto scratch = build.buffer("scratch", 64, Role::kScratch);
  const int pack = build.node("pack", {build.write(scratch)});
  build.node("exchange", {}, {pack});
  build.node("combine", {build.read(scratch)});
  build.graph().nodes[2].dependencies = {{.node = 1, .is_programmatic = true}};
  EXPECT_THAT(build.kinds(), IsEmpty());
}

TEST(GraphRules, UbatchesOnOneScratchAlias) {
  RecordBuilder build;
  const auto scratch = build.buffer("send", 64, Role::kScratch);
  const int first = build.node("pack", {build.write(scratch)}, {}, 0);
  build.node("exchange", {build.read(scratch)}, {first}, 0);
  const int second = build.node("pack", {build.write(scratch)}, {}, 1);
  build.node("exchange", {build.read(scratch)}, {second}, 1);
  EXPECT_THAT(build.kinds(), ElementsAre("cross_ubatch_alias"));
}

TEST(GraphRules, LaterUbatchMayAppendWhileAnEarlierOneReads) {
  RecordBuilder build;
  const auto cache = build.buffer("kv_cache", 64, Role::kState);
  const auto indexed = [&](Mode mode) {
    Access access = build.access(cache, mode);
    access.is_indexed = true;
    return access;
  };
  const int append_0 = build.node("kv_append", {indexed(Mode::kWrite)}, {}, 0);
  build.node("attention", {indexed(Mode::kRead)}, {append_0}, 0);
  const int append_1 = build.node("kv_append", {indexed(Mode::kWrite)}, {append_0}, 1);
  build.node("attention", {indexed(Mode::kRead)}, {append_1}, 1);
  EXPECT_THAT(build.kinds(), IsEmpty());

  build.graph().nodes[2].dependencies.clear();  // the second no longer sees what the first appends
  EXPECT_THAT(build.kinds(), ElementsAre("unordered_access"));
}

TEST(GraphRules, ScratchThatNobodyWritesIsReadUninitialised) {
  RecordBuilder build;
  const auto scratch = build.buffer("split_lse", 64, Role::kScratch);
  build.node("split_combine", {build.read(scratch)});
  EXPECT_THAT(build.kinds(), ElementsAre("uninit_read"));
}

TEST(GraphRules, InputsAreWrittenByTheHost) {
  RecordBuilder build;
  for (const Role role : {Role::kInput, Role::kMetadata, Role::kState, Role::kUnknown}) {
    build.node("op", {build.read(build.buffer("input", 64, role))});
  }
  EXPECT_THAT(build.kinds(), IsEmpty());
}

TEST(GraphRules, RowsThatTheStageBeforeLeftOutAreNamed) {
  RecordBuilder build;
  const auto scratch = build.buffer("partial_out", 64, Role::kScratch);
  const int first = build.node("attention", {build.access(scratch, Mode::kWrite, 0, 48)});
  build.node("pack", {build.read(scratch)}, {first});
  const auto found = audit(build.record());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, "unwritten_row_read");
  EXPECT_THAT(found[0].why, HasSubstr("of which 16, from byte 48 on"));
}

TEST(GraphRules, OutputThatNobodyWritesIsNamed) {
  RecordBuilder build;
  const auto out = build.buffer("out", 64, Role::kOutput);
  build.node("combine", {build.access(out, Mode::kWrite, 0, 32)});
  const auto found = audit(build.record());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, "unwritten_output");
  EXPECT_THAT(found[0].why, HasSubstr("32 of the 64 bytes"));
}

TEST(GraphRules, ScalingInPlaceNeedsAFreshInput) {
  RecordBuilder build;
  const auto partial = build.buffer("partial_out", 64, Role::kScratch);
  build.node("correct", {build.access(partial, Mode::kReadWrite)});
  EXPECT_THAT(build.kinds(), ElementsAre("in_place_on_stale_input"));

  RecordBuilder sound;
  const auto fresh = sound.buffer("partial_out", 64, Role::kScratch);
  const int attention = sound.node("attention", {sound.write(fresh)});
  sound.node("correct", {sound.access(fresh, Mode::kReadWrite)}, {attention});
  EXPECT_THAT(sound.kinds(), IsEmpty());
}

TEST(GraphRules, TileBeyondTheEndIsNamed) {
  RecordBuilder build;
  const auto input = build.buffer("out", 64, Role::kInput);
  Access tile = build.read(input);
  tile.size_bytes = 100;
  build.node("gemm", {tile});
  const auto found = audit(build.record());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, "read_past_end");
  EXPECT_THAT(found[0].why, HasSubstr("36 bytes past the end"));
}

TEST(GraphRules, BranchesThatShareACommunicatorNeedAnOrder) {
  RecordBuilder build;
  build.node("all_gather", {}, {}, 0);
  build.node("all_gather", {}, {}, 1);
  for (Node& node : build.graph().nodes) {
    node.exchange = "all_gather 64";
    node.communicator = 7;
  }
  EXPECT_THAT(build.kinds(), ElementsAre("parallel_branches_one_comm"));
  build.graph().nodes[1].communicator = 8;
  EXPECT_THAT(build.kinds(), IsEmpty());
}

TEST(GraphRules, AllToAllNeedsAReceiveBufferOfItsOwn) {
  RecordBuilder build;
  const auto send = build.buffer("send", 64, Role::kInput);
  const auto recv = build.buffer("recv", 64, Role::kScratch);
  build.node("all_to_all", {build.read(send), build.write(recv)});
  build.graph().nodes[0].exchange = "all_to_all";
  EXPECT_THAT(build.kinds(), IsEmpty());
  build.graph().nodes[0].accesses[1] = build.write(send);
  EXPECT_THAT(build.kinds(), ElementsAre("unordered_access"));
}

TEST(GraphRules, OperationOfThePlanThatIsNotInTheGraphIsMissing) {
  RecordBuilder build;
  const auto scratch = build.buffer("recv", 64, Role::kScratch);
  Node exchange{.op = "permute"};
  exchange.accesses = {build.write(scratch)};
  Node combine{.op = "combine"};
  combine.accesses = {build.read(scratch)};
  build.graph().plan = {Node{.op = "pack"}, exchange, combine};
  build.node("pack", {});
  build.node("combine", {build.read(scratch)}, {0});
  const auto found = audit(build.record());
  ASSERT_EQ(found.size(), 1u) << "that nobody writes what the combine reads has the same cause";
  EXPECT_EQ(found[0].kind, "missing_node");
  EXPECT_EQ(found[0].node, "permute");
}

TEST(GraphRules, NodesBesidesThePlanAreNoConcern) {
  RecordBuilder build;
  build.graph().plan = {Node{.op = "pack"}, Node{.op = "combine"}};
  for (const char* op : {"memcpy", "pack", "memset", "combine"}) build.node(op, {});
  EXPECT_THAT(build.kinds(), IsEmpty());
}

TEST(GraphRules, NumberThatTheStepWouldNotPassIsFrozen) {
  RecordBuilder build;
  const auto input = build.buffer("seq_lens", 64, Role::kMetadata);
  build.node("attention", {build.read(input)});
  Node planned{.op = "attention"};
  planned.words = {0x1000, 4};
  build.graph().plan = {planned};
  build.graph().nodes[0].words = {0x1000, 2};
  const auto found = audit(build.record());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, "frozen_host_value");
  EXPECT_THAT(found[0].why, HasSubstr("captured with 2, the step would pass 4"));

  build.graph().plan[0].words = {0x1020, 2};  // another pointer is another rule's
  EXPECT_THAT(build.kinds(), IsEmpty());
}

TEST(GraphRules, PointersAndDeclarationsMustAgree) {
  RecordBuilder build;
  const auto input = build.buffer("seq_lens", 64, Role::kMetadata);
  build.buffer("block_table", 64, Role::kMetadata);
  build.node("attention", {build.read(input)});
  build.graph().nodes[0].words = {0x1000};
  EXPECT_THAT(build.kinds(), IsEmpty());
  build.graph().nodes[0].words = {0x1000, 0x2010};
  EXPECT_THAT(build.kinds(), ElementsAre("undeclared_access")) << "a pointer that is not declared";
  build.graph().nodes[0].accesses.push_back({.address = 0x2010, .size_bytes = 0});
  EXPECT_THAT(build.kinds(), IsEmpty()) << "a pointer behind which nothing is touched";
  build.graph().nodes[0].accesses.pop_back();
  build.graph().nodes[0].words = {4, 7};
  EXPECT_THAT(build.kinds(), ElementsAre("undeclared_access")) << "no pointer to what is declared";
}

}  // namespace
}  // namespace dcp::audit
