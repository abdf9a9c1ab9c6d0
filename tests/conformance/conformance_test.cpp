// The simulator's part of conformance; tools/conformance.cpp holds it against a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "comm/simulated/host_world.hpp"
#include "tests/conformance/difference.hpp"

namespace dcp::conformance {
namespace {

constexpr std::uint64_t kNumPrograms = 1000;

TEST(Conformance, AThousandProgramsRunAndNoneDependsOnTheSchedule) {
  for (std::uint64_t seed = 1; seed <= kNumPrograms; ++seed) {
    const Played played = generate(seed);
    for (const std::uint64_t schedule : {seed, seed + 1, seed + 2}) {
      const auto difference = compare(played, [&] { return make_simulator(schedule); });
      ASSERT_FALSE(difference) << "seed " << seed << ", " << difference->kind << "\n"
                               << text(played, *difference);
    }
  }
}

// What the programs reach: a generator whose captures never succeed would find nothing.
TEST(Conformance, ProgramsReachEveryCallAndManyAnswers) {
  std::map<std::string, int> count;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const Played played = generate(seed);
    for (std::size_t i = 0; i < played.program.calls.size(); ++i) {
      const Call& call = played.program.calls[i];
      std::string kind(name(call.verb));
      if (call.verb == Verb::kApiCall) kind += " " + std::string(name(call.api));
      const std::string& answer = played.transcript.answers[i];
      const bool is_graph = answer.starts_with("ok ");
      ++count[kind + " " + (is_graph ? "ok" : answer)];
      if (is_graph && !answer.starts_with("ok 0") && !answer.starts_with("ok 1 ")) {
        ++count["graphs of several nodes"];
      }
      if (call.buffer >= 0) ++count["ops through a buffer"];
      if (call.source >= 0) ++count["ops that read a slot"];
    }
  }
  std::string all;
  for (const auto& [kind, number] : count) all += kind + ": " + std::to_string(number) + "\n";
  for (const char* kind : {"copy ok",
                           "round ok",
                           "collective ok",
                           "wait ok",
                           "launch ok",
                           "end ok",
                           "free ok",
                           "destroy_exec ok",
                           "destroy_graph ok",
                           "copy cudaErrorStreamCaptureInvalidated 901",
                           "wait cudaErrorStreamCaptureIsolation 905",
                           "wait cudaErrorStreamCaptureMerge 902",
                           "end cudaErrorStreamCaptureUnjoined 904",
                           "end cudaErrorStreamCaptureUnmatched 903",
                           "end cudaErrorIllegalState 401",
                           "begin cudaErrorIllegalState 401",
                           "launch cudaErrorStreamCaptureUnsupported 900",
                           "destroy_exec refused: graph_in_flight",
                           "call malloc cudaErrorStreamCaptureUnsupported 900",
                           "call event_query cudaErrorCapturedEvent 907",
                           "is_capturing yes",
                           "is_capturing no",
                           "graphs of several nodes",
                           "ops through a buffer",
                           "ops that read a slot"}) {
    EXPECT_GT(count[kind], 5) << kind << "\n" << all;
  }
}

TEST(Conformance, ASeedGivesOneProgramAndOneTranscript) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const Played first = generate(seed);
    const Played second = generate(seed);
    ASSERT_EQ(first.program.calls.size(), second.program.calls.size()) << "seed " << seed;
    for (std::size_t i = 0; i < first.program.calls.size(); ++i) {
      EXPECT_EQ(text(first.program.calls[i]), text(second.program.calls[i])) << "seed " << seed;
    }
    EXPECT_EQ(first.transcript.answers, second.transcript.answers) << "seed " << seed;
    EXPECT_EQ(first.transcript.slots, second.transcript.slots) << "seed " << seed;
  }
}

// A backend that differs: somebody else captures in it, so that it refuses unsafe calls.
std::unique_ptr<World> make_capturing_world() {
  auto world = std::make_unique<HostWorld>(1, 1, kNumCommunicators);
  HostRuntime& runtime = world->runtime(0);
  runtime.begin_capture(runtime.make_stream("foreign"), CaptureMode::kGlobal);
  return world;
}

TEST(Conformance, ADifferenceIsFoundAndShrinksToTheCallsThatItNeeds) {
  const std::string instantiation =
      "instantiate: simulator ok, other cudaErrorStreamCaptureUnsupported 900";
  std::map<std::string, std::size_t> smallest;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Played played = generate(seed);
    const auto difference = compare(played, make_capturing_world);
    if (!difference) continue;
    const Played small = shrink(played, difference->kind, make_capturing_world);
    const auto still = compare(small, make_capturing_world);
    ASSERT_TRUE(still);
    EXPECT_EQ(still->kind, difference->kind);
    smallest[difference->kind] = small.program.calls.size();
  }
  EXPECT_EQ(smallest.at("call malloc: simulator ok, other cudaErrorStreamCaptureUnsupported 900"),
            1u);
  EXPECT_EQ(smallest.at(instantiation), 3u) << "a begin, an end and the instantiation";
}

TEST(Conformance, OtherBytesAreADifference) {
  Played played = generate(3);
  const auto op = std::find_if(played.program.calls.begin(), played.program.calls.end(),
                               [](const Call& call) { return call.verb == Verb::kRound; });
  ASSERT_NE(op, played.program.calls.end());
  played.transcript.slots[static_cast<std::size_t>(op->id) * kSlotBytes] ^= std::byte{1};
  const auto difference = compare(played, [] { return make_simulator(5); });
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->kind, "bytes of round");
}

TEST(Conformance, AnotherGraphIsADifference) {
  Played played = generate(3);
  const auto graph =
      std::find_if(played.transcript.answers.begin(), played.transcript.answers.end(),
                   [](const std::string& answer) { return answer.starts_with("ok "); });
  ASSERT_NE(graph, played.transcript.answers.end());
  *graph += " copy;";
  const auto difference = compare(played, [] { return make_simulator(5); });
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->kind, "end: another graph");
}

TEST(Conformance, EveryKnownDifferenceIsExplainedInTheDocumentation) {
  std::ifstream file(DCPSIM_SOURCE_DIR "/docs/CONFORMANCE.md");
  std::stringstream text;
  text << file.rdbuf();
  for (const KnownDifference& known : known_differences()) {
    EXPECT_NE(text.str().find(std::string(known.kind)), std::string::npos) << known.kind;
  }
}

}  // namespace
}  // namespace dcp::conformance
