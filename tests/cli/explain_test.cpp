#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/explain_slots.hpp"
#include "cli/token_picture.hpp"
#include "tests/cli/program.hpp"

namespace dcp {
namespace {

BatchLayout layout_of(std::int64_t length, std::int64_t query_len) {
  BatchLayout layout;
  layout.seq_lens = {length};
  layout.query_start_loc = {0, query_len};
  return layout;
}

TEST(TokenPicture, ShowsTheOwnerOfEachTokenAndWhichAreNew) {
  EXPECT_EQ(token_picture(layout_of(9, 1), {0, 4, 1}, 0), "0123 0123 [0]");
  EXPECT_EQ(token_picture(layout_of(6, 3), {0, 4, 1}, 0), "012 [3 01]");
  EXPECT_EQ(token_picture(layout_of(1, 1), {0, 4, 1}, 0), "[0]");
}

TEST(TokenPicture, ADigitStandsForARunOfTokens) {
  EXPECT_EQ(token_picture(layout_of(64 * 5 + 1, 1), {0, 4, 64}, 0), "0123 01");
}

TEST(TokenPicture, ShardsGivenByHandAreContiguous) {
  BatchLayout layout = layout_of(5, 1);
  layout.contiguous = true;
  layout.local_seq_lens = {{2}, {0}, {3}};
  EXPECT_EQ(token_picture(layout, {0, 3, 1}, 0), "0022 [2]");
}

TEST(TokenPicture, ALongRequestShowsItsBeginningAndItsEnd) {
  const std::string picture = token_picture(layout_of(2000000000, 1), {0, 4, 1}, 0);
  EXPECT_LT(picture.size(), 90u);
  EXPECT_NE(picture.find(" ... "), std::string::npos);
  EXPECT_EQ(picture.substr(picture.size() - 3), "[3]");
}

class Explain : public test::ProgramTest {};

TEST_F(Explain, StaysWithinAHundredColumns) {
  const test::Outcome all = run("explain " DCPSIM_SOURCE_DIR "/scenarios --strategy all --verbose");
  ASSERT_EQ(all.exit_code, 0) << all.err;
  std::istringstream lines(all.out);
  for (std::string line; std::getline(lines, line);) {
    const bool is_one_word = line.find(' ', line.find_first_not_of(' ')) == std::string::npos;
    EXPECT_TRUE(line.size() <= 100 || is_one_word) << line;
  }
}

TEST_F(Explain, ReportsSpellingsUnderTheFirstName) {
  write("x.yaml",
        "decode_context_parallel_size: 2\nmodel: tiny\nbatches:\n  b: {seq_lens: [5, 2]}\n");
  const test::Outcome outcome = run("explain " + path("x.yaml") + " --json " + path("x.json"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("decode_context_parallel_size is world_size"), std::string::npos);
  const auto json = nlohmann::json::parse(text_of("x.json"));
  const auto& scenario = json.at("scenarios").at(0);
  EXPECT_EQ(scenario.at("aliases").at("decode_context_parallel_size"), "world_size");
  EXPECT_EQ(scenario.at("batches").at(0).at("local_seq_lens"),
            nlohmann::json::parse("[[3, 1], [2, 1]]"));
}

TEST_F(Explain, SaysWhichRuleOfVllmIsBrokenAndWhy) {
  write("x.yaml", "world_size: 2\ninterleave: 3\nmodel: tiny\nbatches:\n  b: {seq_lens: [5, 2]}\n");
  const test::Outcome outcome = run("explain " + path("x.yaml"));
  EXPECT_NE(outcome.out.find("vLLM would not take this deployment"), std::string::npos);
  EXPECT_NE(outcome.out.find("NO   kv.block_size % interleave == 0 (kv.block_size 4"),
            std::string::npos)
      << outcome.out;
}

TEST_F(Explain, RefusesOptionsOfARun) {
  write("x.yaml", "world_size: 2\nmodel: tiny\nbatches:\n  b: {seq_lens: [5, 2]}\n");
  EXPECT_EQ(run("explain " + path("x.yaml") + " --seed 3").exit_code, 2);
}

TEST(ExplainSlots, AnOddNumberOfExchangesAlternatesFromReplayToReplay) {
  using Slots = std::vector<std::int64_t>;
  const ExplainedExchange three{.epoch = "epoch", .per_replay = 3, .num_slots = 2};
  EXPECT_EQ(slots_of_replay(three, 0), (Slots{1, 0, 1}));
  EXPECT_EQ(slots_of_replay(three, 3), (Slots{0, 1, 0}));
  const ExplainedExchange two{.epoch = "epoch", .per_replay = 2, .num_slots = 2};
  EXPECT_EQ(slots_of_replay(two, 0), slots_of_replay(two, 2));
  const ExplainedExchange of_three{.epoch = "epoch", .per_replay = 2, .num_slots = 3};
  EXPECT_EQ(slots_of_replay(of_three, 2), (Slots{0, 1}));
}

TEST_F(Explain, ShowsTheSlotsOfEachReplayAndTheEpochsAfterIt) {
  const std::string file = "explain " DCPSIM_SOURCE_DIR "/scenarios/direct/dcp2-mla-first.yaml";
  const auto row_of = [&](const std::string& options) {
    const std::string out = run(file + options).out;
    const std::size_t head = out.find("  after k replays\n");
    if (head == std::string::npos) return std::string();
    const std::size_t begin = out.find('\n', head) + 1;
    return out.substr(begin, out.find('\n', begin) - begin);
  };
  EXPECT_EQ(row_of(""), "  epoch  4         2      1 0 1 0   1 0 1 0   4 k");
  EXPECT_EQ(row_of(" --set layers=1"), "  epoch  1         2      1         0         k");
  EXPECT_EQ(row_of(" --set layers=3 --set direct.form=fused --set graph.ubatches=2"),
            "  epoch  3         2      1 0 1     0 1 0     3 k");
  EXPECT_EQ(row_of(" --strategy a2a"), "");
}

}  // namespace
}  // namespace dcp
