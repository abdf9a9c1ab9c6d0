#include <gtest/gtest.h>

#include "tests/core/scenario_texts.hpp"

namespace dcp {
namespace {

using test::with_keys;
using test::with_steps;

// what() of require_supported, "" where the scenario is supported.
std::string unsupported(const std::string& text, const std::vector<Override>& overrides = {}) {
  const Scenario scenario = parse_scenario("s.yaml", text, overrides);
  try {
    require_supported(scenario);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string error(const std::string& place, const std::string& what) {
  return "s.yaml:" + place + ": error: '" + what + "' is not supported yet";
}

TEST(RequireSupported, AcceptsWhatTheEngineHas) {
  EXPECT_EQ(unsupported(with_keys("")), "");
  EXPECT_EQ(
      unsupported(with_keys("strategy: [ag_rs, ag_ar, a2a, direct]\nquery: replicate\nsplit_kv: 3\n"
                            "workspace: {policy: growable, need: {2: 10}}\n"
                            "graph: {capture_sizes: vllm, capture_mode: global, pool: shared}\n")),
      "");
  EXPECT_EQ(
      unsupported(with_steps("  - capture: all\n  - {replay: {batch: short, times: 2}, name: r}\n"
                             "  - poison: send\n  - stub_attention: plus_inf\n  - sync: all\n"
                             "  - eager: {batch: short, wait: true}\n"
                             "    expect: {same_bits_as: r, failures: [mismatch],\n"
                             "             by_strategy: {a2a: {eager_rows: 1}}}\n"
                             "  - destroy: {comm: all}\n")),
      "");
  EXPECT_EQ(unsupported("world_size: 2\nmodel: llama-70b\nattention_split: context_then_new\n"
                        "split_kv: auto\nbatches: {b: {seq_lens: [5]}}"),
            "");
}

TEST(RequireSupported, NamesEachSettingAtItsPlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"attention_split: context_then_new",
       "3:18|attention_split: context_then_new with attention: mla"},
  };
  for (const auto& [line, expected] : cases) {
    const std::size_t bar = expected.find('|');
    EXPECT_EQ(unsupported(with_keys(line + "\n")),
              error(expected.substr(0, bar), expected.substr(bar + 1)));
  }
  EXPECT_EQ(unsupported("world_size: 2\nmodel: llama-70b\nattention_split: context_then_new\n"
                        "data: {kind: given, lse: [0, 0], out: [1, 2]}\n"
                        "batches: {b: {seq_lens: [5]}}"),
            error("3:18", "attention_split: context_then_new with data: given"));
}

TEST(RequireSupported, PlacesOverridesOnTheCommandLine) {
  EXPECT_EQ(
      unsupported(with_keys(""), {{"attention_split", "context_then_new"}}),
      "--set attention_split=context_then_new: error: 'attention_split: context_then_new with "
      "attention: mla' is not supported yet");
}

TEST(RequireSupported, RefusesTheRankOfWhatAllRanksDo) {
  for (const char* step : {"capture: all", "sync: all", "stub_attention: exact", "lock: workspace",
                           "destroy: {comm: all}"}) {
    const std::string verb = std::string(step).substr(0, std::string(step).find(':'));
    EXPECT_EQ(unsupported(with_steps("  - rank: 1\n    " + std::string(step) + "\n")),
              "s.yaml:6:11: error: 'rank' does not apply to '" + verb +
                  "': all ranks do it ('together' gives ranks steps of their own)");
  }
  EXPECT_EQ(unsupported(with_steps("  - {poison: out, rank: 1}\n")), "");
  EXPECT_EQ(unsupported(with_steps("  - {replay: short, rank: 1}\n")), "");
}

TEST(RequireSupported, AcceptsEveryVerb) {
  const std::vector<std::string> verbs = {"together: [{replay: short, rank: 0}]",
                                          "lock: workspace",
                                          "grow: {workspace: 4}",
                                          "allocate: {name: x, bytes: 4, in: pool}",
                                          "free: send",
                                          "rebind: send",
                                          "remap: send",
                                          "canary: send",
                                          "check_canary: send",
                                          "set: {lse_base: 2}",
                                          "set: {epoch: 1}",
                                          "stall: {at: combine, until: end}",
                                          "stall: {at: publish, until: end}",
                                          "stall: {at: wait, until: end}",
                                          "stall: {at: read, until: end}",
                                          "skip: {op: combine}",
                                          "during_capture: {call: cudaMalloc}",
                                          "throw: {at: combine}",
                                          "fork: s",
                                          "join: s",
                                          "place: {ubatch: 0, stream: s}",
                                          "replay: {batch: short, stream: s1, wait: false}",
                                          "eager: {batch: short, stream: s1, wait: false}"};
  for (const std::string& step : verbs) {
    EXPECT_EQ(unsupported(with_steps("  - " + step + "\n  - {sync: all, name: end}\n")), "");
  }
}

TEST(RequireSupported, NamesTheStepAndTheStepInsideAStep) {
  const auto of_step = [](const std::string& step) {
    return unsupported(with_steps("  - " + step + "\n  - {sync: all, name: end}\n"));
  };
  EXPECT_EQ(of_step("set: {strategy: a2a}"), error("6:21", "set.strategy"));
  EXPECT_EQ(of_step("together: [{set: {strategy: a2a}, rank: 0}]"), error("6:33", "set.strategy"));
}

TEST(RequireSupported, TakesExpectedHazards) {
  EXPECT_EQ(unsupported(with_steps("  - {replay: short, expect: {hazards: [stale_pointer]}}\n")),
            "");
}

}  // namespace
}  // namespace dcp
