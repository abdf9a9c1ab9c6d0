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
  EXPECT_EQ(unsupported(with_keys(
                "strategy: [ag_rs, ag_ar, a2a]\nquery: replicate\nsplit_kv: 3\n"
                "workspace: fixed\ngraph: {capture_sizes: vllm, capture_mode: global}\n")),
            "");
  EXPECT_EQ(unsupported(
                with_steps("  - capture: all\n  - {replay: {batch: short, times: 2}, name: r}\n"
                           "  - poison: send\n  - stub_attention: plus_inf\n  - sync: all\n"
                           "  - eager: {batch: short, wait: true}\n"
                           "    expect: {same_bits_as: r, failures: [mismatch], error: capacity,\n"
                           "             by_strategy: {a2a: {eager_rows: 1}}}\n"
                           "  - destroy: {comm: all}\n")),
            "");
  EXPECT_EQ(unsupported("world_size: 2\nmodel: llama-70b\nattention_split: context_then_new\n"
                        "split_kv: auto\nbatches: {b: {seq_lens: [5]}}"),
            "");
}

TEST(RequireSupported, NamesEachSettingAtItsPlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"strategy: [a2a, direct]", "3:11|strategy: direct"},
      {"query: direct", "3:8|query: direct"},
      {"attention_split: context_then_new",
       "3:18|attention_split: context_then_new with attention: mla"},
      {"kv: {dtype: fp8_e4m3}", "3:13|kv.dtype: fp8_e4m3"},
      {"kv_gather: {tokens: 4, dim: 16}", "3:12|kv_gather: {tokens, dim, dtype}"},
      {"graph: {pool: shared}", "3:15|graph.pool: shared"},
      {"workspace: growable", "3:12|workspace.policy: growable"},
      {"workspace: {need: {2: 10}}", "3:19|workspace.need: {rows: bytes}"},
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
  EXPECT_EQ(unsupported(with_keys(""), {{"graph.pool", "shared"}}),
            "--set graph.pool=shared: error: 'graph.pool: shared' is not supported yet");
}

TEST(RequireSupported, NamesEachVerbAtItsStep) {
  const std::vector<std::string> verbs = {"together: [{replay: short, rank: 0}]",
                                          "lock: workspace",
                                          "grow: {workspace: 4}",
                                          "allocate: {name: x, bytes: 4}",
                                          "free: send",
                                          "rebind: send",
                                          "remap: send",
                                          "canary: send",
                                          "check_canary: send",
                                          "set: {epoch: 1}",
                                          "stall: {at: wait, until: end}",
                                          "skip: {op: x}",
                                          "during_capture: {call: x}",
                                          "throw: {at: x}",
                                          "fork: s",
                                          "join: s",
                                          "place: {ubatch: 0, stream: s}"};
  for (const std::string& step : verbs) {
    const std::string name = step.substr(0, step.find(':'));
    EXPECT_EQ(
        unsupported(with_steps("  - sync: all\n  - " + step + "\n  - {sync: all, name: end}\n")),
        error("7:5", "verb: " + name));
  }
}

TEST(RequireSupported, RefusesTheRankOfWhatAllRanksDo) {
  for (const char* step : {"capture: all", "replay: short", "eager: short", "sync: all",
                           "stub_attention: exact", "destroy: {comm: all}"}) {
    const std::string verb = std::string(step).substr(0, std::string(step).find(':'));
    EXPECT_EQ(unsupported(with_steps("  - rank: 1\n    " + std::string(step) + "\n")),
              "s.yaml:6:11: error: 'rank' does not apply to '" + verb +
                  "': all ranks do it ('together' gives ranks steps of their own)");
  }
  EXPECT_EQ(unsupported(with_steps("  - {poison: out, rank: 1}\n")), "");
}

TEST(RequireSupported, NamesEachOptionOfAStep) {
  EXPECT_EQ(unsupported(with_steps("  - replay: {batch: short, stream: s1}\n")),
            error("6:36", "replay.stream: s1"));
  EXPECT_EQ(unsupported(with_steps("  - replay: {batch: short, wait: false}\n")),
            error("6:34", "replay.wait: false"));
  EXPECT_EQ(unsupported(with_steps("  - eager: {batch: short, stream: s1}\n")),
            error("6:35", "eager.stream: s1"));
  EXPECT_EQ(unsupported(with_steps("  - eager: {batch: short, wait: false}\n")),
            error("6:33", "eager.wait: false"));
  EXPECT_EQ(unsupported(with_steps("  - {replay: short, expect: {hazards: [stale_pointer]}}\n")),
            error("6:39", "expect.hazards"));
  EXPECT_EQ(unsupported(with_steps(
                "  - {replay: short, expect: {by_strategy: {a2a: {hazards: [stale_pointer]}}}}\n")),
            error("6:29", "expect.hazards"));
}

}  // namespace
}  // namespace dcp
