// Step verbs where a scenario file cannot look: what is refused, where, and in which words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/scenario_reader.hpp"
#include "core/step_words.hpp"
#include "harness/scenario_runner.hpp"
#include "harness/schedule_trace.hpp"
#include "strategies/registry.hpp"

namespace dcp {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kHead = R"(schema: 1
world_size: 2
model: tiny
dtype: fp32
data: {kind: mean}
graph: {capture_sizes: [4]}
batches:
  two: {seq_lens: [5, 3]}
  other: {seq_lens: [1, 7]}
)";

ScenarioReport run(const std::string& steps, const std::string& keys = "",
                   ScheduleTrace* trace = nullptr) {
  const Scenario scenario =
      parse_scenario("test.yaml", kHead + keys + "steps:\n  - capture: all\n" + steps);
  return run_scenario(scenario, *find_strategy("a2a"), {.seed = 1, .trace = trace});
}

// All problems of all steps, and the bad input.
std::string problems(const std::string& steps, const std::string& keys = "") {
  const ScenarioReport report = run(steps, keys);
  std::string text = report.bad_input;
  for (const StepReport& step : report.steps) {
    for (const std::string& problem : step.problems) {
      text += "step " + std::to_string(step.index) + ": " + problem + "\n";
    }
  }
  return text;
}

TEST(Verbs, AStepThatIsNotWaitedForIsCheckedWhenSomethingDrains) {
  const ScenarioReport report =
      run("  - replay: {batch: two, wait: false}\n"
          "  - replay: {batch: other, wait: false}\n  - sync: all\n");
  EXPECT_EQ(report.status, Status::kPass);
  EXPECT_EQ(report.steps.at(1).checks.size(), 3u);
  EXPECT_EQ(report.steps.at(2).checks.size(), 3u);
}

TEST(Verbs, AStepThatIsNeverDrainedIsCheckedAtTheEnd) {
  EXPECT_THAT(problems("  - replay: {batch: two, wait: false}\n    expect: {out: {0: 1.5}}\n"),
              HasSubstr("step 1: expect.out: row 0 is 1.39999998, expected 1.5"));
}

// In some orders what one of them overwrites is NaN again when the other's outputs are looked at.
TEST(Verbs, OfStepsThatRaceOnlyTheRaceIsReported) {
  const Scenario scenario = read_scenario(
      DCPSIM_SOURCE_DIR "/scenarios/faults/F73-two-graphs-one-workspace-one-rank.yaml");
  for (const char* strategy : {"ag_rs", "ag_ar"}) {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      const ScenarioReport report =
          run_scenario(scenario, *find_strategy(strategy), {.seed = seed});
      EXPECT_EQ(report.status, Status::kPass) << strategy << ", seed " << seed;
    }
  }
}

TEST(Verbs, AnUnwaitedStepStaysPendingWhileALaterOneIsEnqueued) {
  ScheduleTrace trace;
  run("  - eager: {batch: two, wait: false}\n  - eager: {batch: two, stream: s1, wait: false}\n"
      "  - sync: all\n",
      "", &trace);
  for (const TraceEvent& event : trace.events()) {
    if (event.step == 0) continue;
    EXPECT_EQ(event.step, 3) << event.op << " ran before the sync";
  }
  EXPECT_FALSE(trace.events().empty());
}

TEST(Verbs, ADeadlockAtTheEndFallsOnTheLastStep) {
  EXPECT_THAT(problems("  - replay: {batch: two, wait: false}\n    rank: 0\n"
                       "  - stub_attention: exact\n"),
              HasSubstr("step 2: failure deadlock: nothing can run; rank 0 waits"));
}

TEST(Verbs, AFailureBelongsToThePendingStepThatExpectsIt) {
  EXPECT_EQ(problems("  - replay: {batch: two, wait: false}\n    rank: 0\n"
                     "    expect: {failures: [deadlock]}\n  - sync: all\n"),
            "");
}

TEST(Verbs, AFailureIsOfTheStepsGraph) {
  const auto on_rank_0 = [](const std::string& failure) {
    return problems("  - replay: two\n    rank: 0\n    expect: {failures: [" + failure + "]}\n");
  };
  EXPECT_EQ(on_rank_0("{kind: deadlock, graph: g4}"), "");
  EXPECT_THAT(on_rank_0("{kind: deadlock, graph: g8}"),
              HasSubstr("expected failure deadlock, graph g8, none was seen"));
  EXPECT_THAT(on_rank_0("deadlock, {kind: deadlock, rank: 1}"),
              HasSubstr("expected failure deadlock, rank 1, none was seen"));
  EXPECT_EQ(problems("  - throw: {at: combine}\n  - capture: {graph: other, rows: 2}\n"
                     "    expect: {failures: [{kind: rank_lost, graph: other}]}\n"),
            "");
}

TEST(Verbs, WhatNoStepTakesIsRefusedAtTheStepThatSetIt) {
  const auto after = [](const std::string& set, const std::string& steps) {
    return problems("  - set: {" + set + "}\n" + steps);
  };
  const std::string replay = "  - replay: two\n";
  const std::string capture = "  - capture: {graph: other, rows: 2}\n";
  for (const char* set :
       {"drop_edge: join", "num_requests: 0", "max_seq_len: 9", "workspace_ubatch: 0", "ubatch: 0",
        "keep: slot_mapping", "keep_tail: seq_lens", "slot_mapping: 0", "block_table: 0",
        "load_stream: s1", "lse_base: e", "lse_dtype: fp32", "epoch: 5"}) {
    EXPECT_THAT(after(set, ""),
                HasSubstr("test.yaml:12:5: error: no step follows that takes 'set."))
        << set;
  }
  for (const char* set : {"num_requests: 0", "drop_edge: join", "ubatch: 0", "lse_base: e"}) {
    EXPECT_THAT(after(set, replay), HasSubstr("a capture or an eager step does")) << set;
    EXPECT_EQ(after(set, capture).find("no step follows"), std::string::npos) << set;
  }
  EXPECT_THAT(after("keep: slot_mapping", capture + replay),
              HasSubstr("'set.keep' acts on a replay of a graph or an eager step, and a capture "
                        "comes first"));
  EXPECT_THAT(after("load_stream: compute", "  - eager: two\n" + replay),
              HasSubstr("'set.load_stream' acts on a replay of a graph, and an eager step comes"));
  EXPECT_EQ(after("load_stream: compute", replay), "");
  EXPECT_THAT(after("lse_base: 2", "  - set: {lse_base: e}\n  - eager: two\n"),
              HasSubstr("test.yaml:13:5: error: no step has taken the 'set.lse_base' of line 12"));
}

TEST(Verbs, WhatIsSetOnARankWaitsForAStepOfThatRank) {
  const std::string set = "  - set: {keep: slot_mapping}\n    rank: 0\n";
  const std::string on_1 = "  - replay: two\n    rank: 1\n    expect: {failures: [deadlock]}\n";
  EXPECT_THAT(problems(set + on_1), HasSubstr("no step follows that takes 'set.keep'"));
  EXPECT_THAT(problems(set + "  - set: {keep: seq_lens}\n    rank: 1\n  - replay: two\n"),
              testing::Not(HasSubstr("error:")));
}

TEST(Verbs, ARankOnItsOwnIsCheckedAgainstTheReference) {
  EXPECT_EQ(problems("  - replay: {batch: two, wait: false}\n    rank: 0\n"
                     "    expect: {out: {0: 1.4}, empty_rows: [2, 3]}\n"
                     "  - replay: {batch: two, wait: false}\n    rank: 1\n  - sync: all\n"),
            "");
  EXPECT_THAT(problems("  - replay: {batch: two, wait: false}\n    rank: 0\n"
                       "  - replay: {batch: other, wait: false}\n    rank: 1\n  - sync: all\n"),
              HasSubstr("step 1: step: layer 0, rank 0, row 0"))
      << "the ranks attended to different batches";
}

TEST(Verbs, StepsTogetherSayWhatEachRankWasGiven) {
  EXPECT_THAT(problems("  - together: [{replay: two, rank: 0}, {eager: two, rank: 1}]\n"),
              HasSubstr("error step_divergence: rank 0 was given replay two, rank 1 was given "
                        "eager two"));
}

TEST(Verbs, AStepInsideTogetherIsHeldToWhatItExpects) {
  const auto of_rank_1 = [](const std::string& expect) {
    return problems(
        "  - together: [{replay: two, rank: 0}, {replay: two, rank: 1, expect: " + expect + "}]\n");
  };
  EXPECT_EQ(of_rank_1("{out: {0: 1.4}, empty_rows: [2, 3]}"), "");
  EXPECT_THAT(of_rank_1("{out: {0: 1.5}}"), HasSubstr("step 1: expect.out: row 0"));
  EXPECT_THAT(of_rank_1("{failures: [deadlock]}"), HasSubstr("expected failure deadlock"));
}

TEST(Verbs, TooMuchPendingIsRefused) {
  EXPECT_THAT(problems("  - replay: {batch: two, times: 513, wait: false}\n"),
              HasSubstr("test.yaml:8:3: error: capacity: more than 512 launches would be pending"));
  EXPECT_EQ(problems("  - replay: {batch: two, times: 512, wait: false}\n  - sync: all\n"
                     "  - replay: {batch: two, times: 512, wait: false}\n"),
            "");
}

TEST(Verbs, AnOperationThatIsNotThereIsBadInputAtItsStep) {
  EXPECT_THAT(problems("  - skip: {op: reduce_scatter}\n  - replay: two\n"),
              HasSubstr("test.yaml:12:5: error: the next step has no operation 'reduce_scatter' on "
                        "the rank; there are: a2a_combine, a2a_pack, all_gather, all_to_all"));
  EXPECT_THAT(problems("  - throw: {at: lse_correct}\n  - capture: all\n"),
              HasSubstr("has no operation 'lse_correct'"));
}

// gx was captured without it, and nothing of an earlier step is there.
TEST(Verbs, OperationsOfEarlierStepsAreNotThere) {
  const std::string said = problems(
      "  - skip: {op: a2a_pack}\n  - capture: {graph: gx, rows: 2, batch: two}\n"
      "    expect: {hazards: [missing_node]}\n"
      "  - skip: {op: a2a_pack}\n  - replay: {batch: two, graph: gx}\n");
  EXPECT_THAT(said,
              HasSubstr("the next step has no operation 'a2a_pack' on the rank; there are: "));
  EXPECT_THAT(said.substr(said.find("there are:")), Not(HasSubstr("a2a_pack")));
}

TEST(Verbs, WhatNoStepFollowsIsBadInputAtItsStep) {
  for (const char* verb : {"skip: {op: a2a_pack}", "throw: {at: attention}"}) {
    EXPECT_THAT(problems("  - replay: two\n  - " + std::string(verb) + "\n"),
                HasSubstr("no step follows that could have the operation"))
        << verb;
  }
  EXPECT_THAT(problems("  - throw: {at: attention}\n  - eager: two\n"),
              HasSubstr("no step follows that could have the operation 'attention'"));
}

TEST(Verbs, ACaptureThatNamesNoGraphDoesNotReplaceOneOfOtherRows) {
  EXPECT_EQ(problems("  - capture: {graph: g2, rows: 3}\n  - capture: [2]\n"),
            "test.yaml:13:5: error: graph g2 of 3 rows would be replaced by the one of 2 rows that "
            "is captured as g2; give one of them a name of its own");
}

TEST(Verbs, ACaptureThatNamesNoGraphDoesNotReplaceOneOfAnotherCut) {
  const Scenario scenario = parse_scenario("test.yaml", R"(schema: 1
world_size: 2
model: tiny
graph: {capture_sizes: [4], ubatches: 2}
batches:
  cut: {seq_lens: [5, 3, 6, 2], ubatch_starts: [0, 1]}
steps:
  - capture: all
  - capture: {batch: cut}
)");
  const ScenarioReport report = run_scenario(scenario, *find_strategy("a2a"), {.seed = 1});
  EXPECT_THAT(report.bad_input, HasSubstr("test.yaml:9:5: error: graph g4 of other ubatches would "
                                          "be replaced"));
}

TEST(Verbs, ACaptureReplacesAGraphOfTheSameRowsOrOneThatItNames) {
  EXPECT_EQ(problems("  - capture: {graph: g2, batch: two}\n  - capture: [2]\n"
                     "  - capture: {graph: g4, rows: 2}\n  - replay: {graph: g4, batch: two}\n"),
            "");
}

TEST(Verbs, AGraphOfNoRowsIsRefused) {
  EXPECT_THAT(problems("  - capture: {graph: x, batch: none}\n", "  none: {seq_lens: []}\n"),
              HasSubstr("error: capacity: graph x would have no rows"));
}

TEST(Verbs, WhatNoCaptureFollowsIsBadInputAtItsStep) {
  for (const char* verb : {"during_capture: {call: cudaMalloc, thread: same}",
                           "allocate: {name: x, bytes: 64, in: capture}"}) {
    EXPECT_THAT(problems("  - replay: two\n  - " + std::string(verb) + "\n  - eager: two\n"),
                HasSubstr("test.yaml:13:5: error: no capture follows this step"))
        << verb;
  }
}

TEST(Verbs, ASkipIsForOneStepOnly) {
  EXPECT_EQ(problems("  - skip: {op: combine}\n  - sync: all\n  - replay: two\n"
                     "    expect: {hazards: [unwritten_output]}\n  - replay: two\n"),
            "");
}

TEST(Verbs, AStalledRankIsNamedByTheDeadlock) {
  EXPECT_THAT(problems("  - stall: {at: combine, until: later}\n    rank: 1\n  - replay: two\n"
                       "  - {sync: all, name: later}\n"),
              HasSubstr("rank 1 waits in capture 0: combine, which is stalled until step later"));
}

TEST(Verbs, AnExpectedMismatchMustComeAndItsWrongValuesAreChecked) {
  EXPECT_THAT(problems("  - replay: two\n    expect: {failures: [mismatch]}\n"),
              HasSubstr("expected failure mismatch, none was seen"));
  const std::string stale =
      "  - rebind: seq_lens\n  - replay: two\n    expect: {failures: "
      "[mismatch], out: {0: ";
  EXPECT_THAT(problems("  - replay: other\n" + stale + "1.0}}\n"), HasSubstr(""))
      << "row 0 has the one key of the batch before";
  EXPECT_THAT(problems("  - replay: other\n" + stale + "1.4}}\n"),
              HasSubstr("expect.out: row 0 is 1, expected 1.4"));
}

// The reader's lists are not the engine's: a word that one of them lacked could not be used.
TEST(Verbs, TheEngineKnowsTheWordsThatTheReaderTakes) {
  for (const auto& [call, about] : capture_calls()) {
    if (call == "cudaMemcpyAsync") continue;  // needs buffers
    EXPECT_THAT(problems("  - during_capture: {call: " + std::string(call) + "}\n"),
                HasSubstr("no capture follows"))
        << call;
  }
  const std::string split =
      "attention_split: context_then_new\nmodel: {extends: llama-70b, num_heads: 8}\n";
  for (const auto& [name, about] : metadata_words()) {
    const Scenario scenario = parse_scenario(
        "test.yaml",
        "world_size: 2\n" + split +
            "batches: {b: {seq_lens: [4]}}\nsteps:\n  - capture: all\n  - set: {keep: " +
            std::string(name) + "}\n  - replay: b\n");
    EXPECT_EQ(run_scenario(scenario, *find_strategy("a2a"), {}).bad_input, "") << name;
  }
}

TEST(Verbs, ValuesThatDoNotFitAreBadInputAtTheirStep) {
  EXPECT_THAT(problems("  - set: {block_table: 99}\n"), HasSubstr("must be from 0 to"));
  EXPECT_THAT(problems("  - place: {ubatch: 1, stream: s}\n"), HasSubstr("ubatch 1 of 1"));
}

TEST(Verbs, BuffersThatAreGoneOrPartsAreRefused) {
  EXPECT_THAT(problems("  - free: kv_cache\n  - free: kv_cache\n"),
              HasSubstr("'kv_cache' was given back already"));
  EXPECT_THAT(problems("  - free: send\n", "workspace: fixed\n"),
              HasSubstr("'send' is part of the workspace"));
  EXPECT_THAT(problems("  - check_canary: kv_cache\n"), HasSubstr("no canary was set"));
  EXPECT_THAT(problems("  - allocate: {name: x, bytes: 4}\n  - allocate: {name: x, bytes: 4}\n"),
              HasSubstr("'x' is allocated already"));
  EXPECT_THAT(problems("  - grow: {workspace: 9}\n"), HasSubstr("no workspace that could grow"));
  EXPECT_THAT(problems("  - allocate: {name: x, bytes: 1000000000000}\n"),
              HasSubstr("error: capacity: allocation 'x'"));
}

// A buffer that all ubatches share has no other ubatch either.
TEST(Verbs, AUbatchThatIsNotThereIsRefusedByEveryVerbThatTakesABuffer) {
  const std::string allocated = "  - allocate: {name: x, bytes: 64}\n  - ";
  for (const std::string buffer : {"q", "seq_lens", "out", "x"}) {
    for (const std::string verb : {"poison", "canary", "check_canary", "free", "rebind", "remap"}) {
      const std::string step = verb + ": {buffer: " + buffer + ", ubatch: ";
      EXPECT_THAT(problems(allocated + step + "9}\n"),
                  HasSubstr("test.yaml:13:5: error: no_such_buffer: '" + buffer +
                            "' of ubatch 9: the last ubatch is 0"))
          << step;
      EXPECT_THAT(problems(allocated + step + "0}\n"), Not(HasSubstr("of ubatch"))) << step;
    }
  }
}

TEST(Verbs, BuffersWhoseAddressesAllRanksHoldAreNotRebound) {
  const auto problem = [](const std::string& keys, const std::string& step) {
    const Scenario scenario =
        parse_scenario("test.yaml", kHead + keys + "steps:\n  - capture: all\n  - " + step + "\n");
    return run_scenario(scenario, *find_strategy("direct"), {.seed = 1}).bad_input;
  };
  const std::string gathers = "query: direct\nkv_gather: {tokens: 4, dim: 16, dtype: fp16}\n";
  for (const char* form : {"steps", "fused"}) {
    const std::string keys = gathers + "direct: {form: " + form + "}\n";
    for (const std::string buffer : {"payload", "lse_slots", "signals", "q_gathered", "kv_slots"}) {
      for (const char* where : {"", ", rank: 0", ", graph: g4"}) {
        EXPECT_THAT(
            problem(keys, "rebind: {buffer: " + buffer + where + "}"),
            HasSubstr("no_such_buffer: '" + buffer + "' is a buffer of the direct exchange"))
            << form << where;
      }
    }
  }
  EXPECT_EQ(problem("", "rebind: {buffer: q_gathered, graph: g4}"), "") << "it is the graph's own";
}

TEST(Verbs, GenerationsTellOldBuffersFromNewOnes) {
  const std::string rebind = "  - rebind: kv_cache\n    expect: {hazards: [rebound_metadata]}\n";
  EXPECT_EQ(problems(rebind + "  - canary: {buffer: kv_cache, generation: 2}\n"), "");
  EXPECT_THAT(problems(rebind + "  - canary: {buffer: kv_cache, generation: 1}\n"),
              HasSubstr("names 0 buffers"));
}

TEST(Verbs, MetadataThatWasGivenBackEndsInAFailureNotInACrash) {
  for (const char* buffer : {"query_start_loc", "block_table", "slot_mapping", "q", "kv_cache",
                             "{buffer: q_gathered, graph: g4}"}) {
    std::string text = std::string(kHead) + "steps:\n  - capture: all\n  - free: " + buffer +
                       "\n  - replay: two\n";
    text.replace(text.find("kind: mean"), 10, "seed: 3");
    const ScenarioReport report =
        run_scenario(parse_scenario("test.yaml", text), *find_strategy("a2a"), {.seed = 1});
    EXPECT_EQ(report.status, Status::kFail) << buffer;
    EXPECT_FALSE(report.steps.back().problems.empty()) << buffer;
  }
}

TEST(Verbs, ALockedWorkspaceNamesBothSizes) {
  EXPECT_THAT(problems("  - lock: workspace\n  - grow: {workspace: 8}\n", "workspace: growable\n"),
              testing::ContainsRegex("workspace_locked: the workspace of ubatch 0 is locked: the "
                                     "step asks for [0-9]+ bytes, it has [0-9]+ bytes"));
}

TEST(Coverage, NamesTheRowsWithoutAGraph) {
  const ScenarioReport report =
      run_scenario(parse_scenario("test.yaml",
                                  "world_size: 2\nmodel: tiny\ngraph: {capture_sizes: [4, 1]}\n"
                                  "batches:\n  six: {seq_lens: [1, 2, 3, 4, 5, 6]}\n"
                                  "  two: {seq_lens: [5, 3]}\n"
                                  "steps:\n  - capture: all\n  - replay: six\n  - replay: two\n"
                                  "  - eager: two\n  - replay: six\n"),
                   *find_strategy("a2a"), {.seed = 1});
  EXPECT_EQ(report.coverage.graph_sizes, (std::vector<std::int64_t>{1, 4}));
  EXPECT_EQ(report.coverage.max_num_tokens, 6);
  EXPECT_EQ(report.coverage.first_uncovered(), 5);
  EXPECT_EQ(report.coverage.ran_eagerly, (std::map<std::int64_t, int>{{6, 2}}));
}

TEST(Coverage, CountsRowsAndNotRequestsThatHaveNone) {
  const std::string text =
      "world_size: 2\nmodel: tiny\nbatches:\n"
      "  two: {seq_lens: [9, 0, 0, 3], query_start_loc: [0, 1, 1, 1, 2]}\n";
  const auto coverage = [&](const std::string& more) {
    return run_scenario(parse_scenario("test.yaml", text + more), *find_strategy("a2a"), {})
        .coverage;
  };
  EXPECT_EQ(coverage("").max_num_tokens, 2);
  EXPECT_EQ(coverage("").first_uncovered(), std::nullopt);
  EXPECT_EQ(coverage("graph: {max_num_tokens: 6}\n").first_uncovered(), 3) << "asked for";
}

}  // namespace
}  // namespace dcp
