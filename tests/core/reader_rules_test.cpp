// Every rule of the reader with the exact place and words of its error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/scenario_texts.hpp"

namespace dcp {
namespace {

using test::error_of;
using test::with_keys;
using test::with_steps;

// The error of a scenario with one more line, without its file name.
std::string key_error(const std::string& line) {
  return error_of(with_keys(line + "\n")).substr(7);
}

// The error of a scenario with one step, without its file name.
std::string step_error(const std::string& step) {
  return error_of(with_steps("  - " + step + "\n")).substr(7);
}

std::string batch_error(const std::string& batch) {
  return error_of("world_size: 2\nmodel: tiny\nbatches:\n  b: " + batch + "\n").substr(7);
}

std::string model_error(const std::string& model) {
  return error_of("world_size: 2\nmodel: " + model + "\nbatches: {b: {seq_lens: [5]}}\n").substr(7);
}

TEST(ReaderRules, IntegersAreDecimalAndInRange) {
  EXPECT_EQ(key_error("layers: 010"), "3:9: error: 'layers' must not start with 0 (octal?): '010'");
  EXPECT_EQ(key_error("layers: -01"), "3:9: error: 'layers' must not start with 0 (octal?): '-01'");
  EXPECT_EQ(key_error("layers: 0x1F"), "3:9: error: 'layers' must be a decimal number, not '0x1F'");
  EXPECT_EQ(key_error("layers: 0o17"), "3:9: error: 'layers' must be a decimal number, not '0o17'");
  EXPECT_EQ(key_error("layers: 0b1"), "3:9: error: 'layers' must be a decimal number, not '0b1'");
  EXPECT_EQ(key_error("layers: 1_0"), "3:9: error: 'layers' must be an integer, not '1_0'");
  EXPECT_EQ(key_error("layers: +1"), "3:9: error: 'layers' must be an integer, not '+1'");
  EXPECT_EQ(key_error("layers: 1.0"), "3:9: error: 'layers' must be an integer, not '1.0'");
  EXPECT_EQ(key_error("layers: 1e2"), "3:9: error: 'layers' must be an integer, not '1e2'");
  EXPECT_EQ(key_error("layers: inf"), "3:9: error: 'layers' must be an integer, not 'inf'");
  EXPECT_EQ(key_error("layers: true"), "3:9: error: 'layers' must be an integer, not 'true'");
  EXPECT_EQ(key_error("layers: '1'"),
            "3:9: error: 'layers' must be an integer, not the string \"1\"");
  EXPECT_EQ(key_error("layers: [1]"), "3:9: error: 'layers' must be an integer, not a list");
  EXPECT_EQ(key_error("layers: null"), "3:9: error: 'layers' must be an integer, not null");
  EXPECT_EQ(key_error("layers: 1025"), "3:9: error: 'layers' must be in 1 .. 1024, not 1025");
  EXPECT_EQ(key_error("layers: 99999999999999999999"),
            "3:9: error: 'layers' must be in 1 .. 1024, not 99999999999999999999");
  EXPECT_EQ(key_error("layers: -99999999999999999999"),
            "3:9: error: 'layers' must be in 1 .. 1024, not -99999999999999999999");
  EXPECT_EQ(key_error("data: {seed: 18446744073709551616}"),
            "3:14: error: 'data.seed' must be in 0 .. 18446744073709551615, not "
            "18446744073709551616");
  EXPECT_EQ(key_error("interleave: 0"),
            "3:13: error: 'interleave' must be in 1 .. 2147483647, not 0");
}

TEST(ReaderRules, RealsAreDecimalOrInfOrNan) {
  const auto value_error = [](const std::string& value) {
    return step_error("{eager: short, expect: {out: {0: " + value + "}}}");
  };
  EXPECT_EQ(value_error("01.5"),
            "6:38: error: 'expect.out.0' must not start with 0 (octal?): '01.5'");
  EXPECT_EQ(value_error("0x1p3"),
            "6:38: error: 'expect.out.0' must be a decimal number, not '0x1p3'");
  EXPECT_EQ(value_error("1."), "6:38: error: 'expect.out.0' must be a number, not '1.'");
  EXPECT_EQ(value_error("1.5.2"), "6:38: error: 'expect.out.0' must be a number, not '1.5.2'");
  EXPECT_EQ(value_error("1e"), "6:38: error: 'expect.out.0' must be a number, not '1e'");
  EXPECT_EQ(value_error("infinity"),
            "6:38: error: 'expect.out.0' must be a number, not 'infinity'");
  EXPECT_EQ(value_error("'1'"),
            "6:38: error: 'expect.out.0' must be a number, not the string \"1\"");
  EXPECT_EQ(value_error("1e999"),
            "6:38: error: 'expect.out.0' is out of the range of a 64-bit float: 1e999");
}

TEST(ReaderRules, BooleansAreTrueOrFalse) {
  for (const char* word : {"yes", "True", "on", "1", "y"}) {
    EXPECT_EQ(key_error(std::string("return_lse: ") + word),
              std::string("3:13: error: 'return_lse' must be true or false, not '") + word + "'");
  }
  EXPECT_EQ(key_error("return_lse: 'true'"),
            "3:13: error: 'return_lse' must be true or false, not the string \"true\"");
}

TEST(ReaderRules, TextThatYamlTakesForSomethingElseNeedsQuotes) {
  const auto about = [](const std::string& word, const std::string& kind) {
    EXPECT_EQ(key_error("about: " + word), "3:8: error: 'about' must be text, and YAML takes '" +
                                               word + "' for " + kind + ": put it in quotes");
  };
  for (const char* word : {"yes", "No", "ON", "off", "true", "False", "y", "N"}) {
    about(word, "a boolean");
  }
  for (const char* word :
       {"7", "-7", "010", "0x1F", "1.5", "1e5", "1_000", "2024-01-31", ".inf", "+.5"}) {
    about(word, "a number");
  }
  EXPECT_EQ(key_error("about: null"), "3:8: error: 'about' must be text, not null");
  EXPECT_EQ(key_error("about: [a]"), "3:8: error: 'about' must be text, not a list");
  EXPECT_EQ(
      batch_error("{seq_lens: [1]}\n  on: {seq_lens: [1]}"),
      "5:3: error: 'batch name' must be text, and YAML takes 'on' for a boolean: put it in quotes");
  EXPECT_EQ(step_error("{fork: ''}"), "6:12: error: 'fork' must not be empty");
}

TEST(ReaderRules, ChoicesAreClosedLists) {
  EXPECT_EQ(
      key_error("dtype: bf17"),
      "3:8: error: 'dtype' must be one of fp16, bf16, fp32, not 'bf17' (did you mean 'bf16'?)");
  EXPECT_EQ(key_error("dtype: fp8_e4m3"),
            "3:8: error: 'dtype' must be one of fp16, bf16, fp32, not 'fp8_e4m3'");
  EXPECT_EQ(key_error("query: no"),
            "3:8: error: 'query' must be one of all_gather, direct, replicate, not 'no'");
  EXPECT_EQ(key_error("strategy: []"), "3:11: error: 'strategy' must not be empty");
  EXPECT_EQ(key_error("strategy: [a2a, a2a]"), "3:17: error: 'strategy' names 'a2a' twice");
  EXPECT_EQ(key_error("lse: {base: 10}"), "3:13: error: 'lse.base' must be one of e, 2, not '10'");
  EXPECT_EQ(key_error("split_kv: all"), "3:11: error: 'split_kv' must be an integer, not 'all'");
  EXPECT_EQ(key_error("kv: {dtype: bf16}"),
            "3:13: error: 'kv.dtype' must be one of same, fp8_e4m3, not 'bf16'");
  EXPECT_EQ(
      key_error("only: {backend: hots}"),
      "3:17: error: 'only.backend' must be one of host, cuda, not 'hots' (did you mean 'host'?)");
  EXPECT_EQ(step_error("{eager: short, expect: {error: capacty}}"),
            "6:36: error: unknown word 'capacty' for 'expect.error' (did you mean 'capacity'?)");
}

TEST(ReaderRules, MapsRefuseUnknownKeysFirst) {
  EXPECT_EQ(error_of("modle: tiny\n"),
            "s.yaml:1:1: error: unknown key 'modle' (did you mean 'model'?)");
  EXPECT_EQ(key_error("decode_context_paralel_size: 2"),
            "3:1: error: unknown key 'decode_context_paralel_size' (did you mean "
            "'decode_context_parallel_size'?)");
  EXPECT_EQ(key_error("kv: {xyz: 2}"),
            "3:6: error: unknown key 'xyz' (known: block_size, dtype, num_blocks)");
  EXPECT_EQ(key_error("kv: 64"), "3:5: error: 'kv' must be a map, not '64'");
}

TEST(ReaderRules, ModelsAreComplete) {
  EXPECT_EQ(model_error("[tiny]"), "2:8: error: 'model' must be a preset or a map, not a list");
  EXPECT_EQ(model_error("{num_heads: 8}"), "2:8: error: missing key 'attention' in 'model'");
  EXPECT_EQ(model_error("{attention: gqa, num_heads: 8, head_dim: 64}"),
            "2:8: error: missing key 'num_kv_heads' in 'model'");
  EXPECT_EQ(
      model_error("{extends: tiny, kv_lora_rank: 12}"),
      "2:38: error: 'model.kv_lora_rank' is the value's head dim: a multiple of 8 in 8 .. 576, "
      "not 12");
  EXPECT_EQ(model_error("{extends: tiny, head_dim: 16}"),
            "2:34: error: 'model.head_dim' is for attention: gqa");
  EXPECT_EQ(model_error("{extends: llama-70b, rope_dim: 16}"),
            "2:39: error: 'model.rope_dim' is for attention: mla");
  EXPECT_EQ(model_error("{extends: tiny, softmax_scale: 0}"),
            "2:39: error: 'model.softmax_scale' must be a number above 0, at most 10000, not '0'");
  EXPECT_EQ(
      model_error("{extends: tiny, softmax_scale: .nan}"),
      "2:39: error: 'model.softmax_scale' must be a number above 0, at most 10000, not '.nan'");
  EXPECT_EQ(model_error("{extends: tiny, padded_num_heads: 7}"),
            "2:42: error: 'model.padded_num_heads' 7 is below the group's 8 heads");
  EXPECT_EQ(model_error("{extends: llama-70b, num_heads: 12}"),
            "2:8: error: 'model.num_heads' 12 must be a multiple of 'num_kv_heads' 8");
}

TEST(ReaderRules, GivenDataHasOneRegularTensorPerRank) {
  const auto error = [](const std::string& lse, const std::string& out) {
    return key_error("data: {kind: given, lse: " + lse + ", out: " + out + "}");
  };
  EXPECT_EQ(error("0", "[0, 0]"), "3:26: error: 'data.lse' must be a list, not '0'");
  EXPECT_EQ(error("[0]", "[0, 0]"),
            "3:26: error: 'data.lse' must have one entry per rank: 2, not 1");
  EXPECT_EQ(error("[0, [1]]", "[0, 0]"),
            "3:31: error: 'data.lse' must be a list at this depth, not '1'");
  EXPECT_EQ(error("[0, [[[1]]]]", "[0, 0]"),
            "3:32: error: 'data.lse' must be a number, not a list");
  EXPECT_EQ(error("[0, [[]]]", "[0, 0]"), "3:31: error: 'data.lse' has an empty list");
  EXPECT_EQ(error("[0, 0]", "[[[[1], [2, 3]]], 0]"),
            "3:47: error: 'data.out' is ragged: a list of 2 where others have 1");
  EXPECT_EQ(key_error("data: {kind: given, lse: [0, 0]}"),
            "3:7: error: missing key 'out' in 'data'");
}

// Infinity is written as such: it means that the rank counts for nothing.
TEST(ReaderRules, GivenNumbersThatTheirTypeDoesNotHoldAreRefused) {
  EXPECT_EQ(key_error("data: {kind: given, lse: [1e39, 0], out: [0, 0]}"),
            "3:27: error: 'data.lse' is out of the range of fp32: 1e39");
  EXPECT_EQ(key_error("data: {kind: given, lse: [0, [[-7e4]]], out: [0, 0]}\nlse: {dtype: fp16}"),
            "3:32: error: 'data.lse' is out of the range of fp16: -7e4");
  EXPECT_EQ(key_error("dtype: fp16\ndata: {kind: given, lse: [7e4, .inf], out: [.nan, 65520]}"),
            "4:51: error: 'data.out' is out of the range of fp16: 65520");
}

TEST(ReaderRules, WordsOfVerbsAreKnownBeforeAnythingRuns) {
  EXPECT_EQ(step_error("set: {lse_base: 10}"),
            "6:21: error: 'set.lse_base' must be one of e, 2, not '10'");
  EXPECT_EQ(step_error("set: {lse_dtype: fp8}"),
            "6:22: error: 'set.lse_dtype' must be one of fp32, fp16, bf16, not 'fp8'");
  EXPECT_EQ(step_error("set: {drop_edge: all}"),
            "6:22: error: 'set.drop_edge' must be one of fork, join, append, not 'all'");
  EXPECT_EQ(step_error("set: {epoch: -1}"),
            "6:18: error: 'set.epoch' must be in 0 .. 4294967295, not -1");
  EXPECT_EQ(step_error("set: {slot_mapping: 1.5}"),
            "6:25: error: 'set.slot_mapping' must be an integer, not '1.5'");
  EXPECT_THAT(step_error("set: {keep: seq_lenz}"), testing::EndsWith("(did you mean 'seq_lens'?)"));
  EXPECT_THAT(step_error("skip: {op: a2a_pakc}"), testing::EndsWith("(did you mean 'a2a_pack'?)"));
  EXPECT_THAT(step_error("throw: {at: junk}"), testing::EndsWith(", not 'junk'"));
  EXPECT_THAT(step_error("during_capture: {call: cudaMallok}"),
              testing::EndsWith("(did you mean 'cudaMalloc'?)"));
}

TEST(ReaderRules, AStallEndsWithANameNotWithAnIndex) {
  EXPECT_EQ(step_error("stall: {at: wait, until: 2}"),
            "6:30: error: 'stall.until' must be the name of a step, which is no number, not '2'");
  EXPECT_THAT(step_error("stall: {at: wait, until: '2'}"),
              testing::HasSubstr("the name of a step"));
}

TEST(ReaderRules, AnOptionBesideItsVerbIsToldWhereItBelongs) {
  EXPECT_EQ(step_error("{replay: short, wait: false}"),
            "6:21: error: unknown verb or key 'wait' ('wait' belongs inside the verb: "
            "{replay: {batch: short, wait: ...}})");
  EXPECT_EQ(step_error("{graph: g4, free: send}"),
            "6:6: error: unknown verb or key 'graph' ('graph' belongs inside the verb: "
            "{free: {buffer: send, graph: ...}})");
  EXPECT_THAT(step_error("{stall: {at: wait}, until: x}"),
              testing::HasSubstr("{stall: {..., until: ...}}"));
}

TEST(ReaderRules, BitsAreThoseOfAStepThatComputes) {
  const auto same_as = [](const std::string& step) {
    return error_of(
        with_steps("  - {capture: all, name: a}\n  - together: [{fork: s, rank: 0}]\n"
                   "  - {eager: short, expect: {same_bits_as: " +
                   step + "}}\n"));
  };
  EXPECT_EQ(same_as("a"),
            "s.yaml:8:43: error: 'expect.same_bits_as' must be a step that computes; step 'a' is a "
            "'capture'");
  EXPECT_THAT(same_as("0"), testing::HasSubstr("step '0' is a 'capture'"));
  EXPECT_THAT(same_as("1"), testing::HasSubstr("step '1' is a 'together'"));
}

TEST(ReaderRules, AStrategysOwnErrorLeavesTheOthersValues) {
  const std::string text =
      "world_size: 2\nmodel: tiny\nstrategy: [a2a, direct]\nbatches: {b: {seq_lens: [5]}}\n"
      "steps: [{eager: b, expect: {out: {0: 1}, by_strategy: {direct: {error: capacity}}}}]\n";
  EXPECT_NO_THROW(parse_scenario("s.yaml", text));
  EXPECT_THAT(error_of(text, {{"strategy", "direct"}}), testing::HasSubstr("'expect.out' says"));
}

TEST(ReaderRules, BatchesHaveIntegersThatFit) {
  EXPECT_EQ(batch_error("{seq_lens: [1, x]}"),
            "4:21: error: 'batches.b.seq_lens' must be an integer, not 'x'");
  EXPECT_EQ(batch_error("{seq_lens: 5}"),
            "4:17: error: 'batches.b.seq_lens' must be a list, not '5'");
  EXPECT_EQ(batch_error("{seq_lens: [5], rows: -1}"),
            "4:28: error: 'batches.b.rows' must be in 0 .. 1048576, not -1");
  EXPECT_EQ(
      batch_error("{seq_lens: [-2147483649]}"),
      "4:18: error: 'batches.b.seq_lens' must be in -2147483648 .. 2147483647, not -2147483649");
}

TEST(ReaderRules, StepsReferToWhatExists) {
  EXPECT_EQ(step_error("replay: long"), "6:13: error: unknown batch 'long'");
  EXPECT_EQ(step_error("capture: {graph: g}"), "6:14: error: 'capture' needs 'rows' or 'batch'");
  EXPECT_EQ(step_error("capture: some"),
            "6:14: error: 'capture' must be all, a list of sizes or a map {graph, rows, batch}, "
            "not 'some'");
  EXPECT_EQ(step_error("replay: {graph: g}"), "6:13: error: missing key 'batch' in 'replay'");
  EXPECT_EQ(step_error("{eager: short, expect: {same_bits_as: 0}}"),
            "6:43: error: 'expect.same_bits_as' must be an earlier step: there is none");
  EXPECT_EQ(step_error("{eager: short, name: me, expect: {same_bits_as: me}}"),
            "6:53: error: 'expect.same_bits_as' must be an earlier step; none has the name 'me'");
  EXPECT_EQ(step_error("{eager: short, name: '12'}"),
            "6:26: error: a step's name must not be a number: '12' means a step's index");
  EXPECT_EQ(step_error("free: {buffer: send, row: 1}"),
            "6:31: error: 'free' takes a whole buffer, not a row");
  EXPECT_EQ(step_error("allocate: {name: send, bytes: 4}"),
            "6:22: error: 'send' is a buffer of the engine: take another name");
  EXPECT_EQ(step_error("{sync: all, rank: 2}"), "6:23: error: 'rank' must be in 0 .. 1, not 2");
  EXPECT_EQ(step_error("set: {epoch: 0x10}"),
            "6:18: error: 'set.epoch' must be a decimal number, not '0x10'");
  EXPECT_EQ(step_error("set: {epoch: 1, ubatch: 1}"),
            "6:10: error: 'set' must be a map of one key");
}

TEST(ReaderRules, TogetherHasStepsOfDifferentRanks) {
  EXPECT_EQ(step_error("together: [{replay: short, rank: 1}, {sync: all, rank: 1}]"),
            "6:42: error: rank 1 has two steps inside 'together'");
  EXPECT_EQ(step_error("together: [{together: [], rank: 0}]"),
            "6:27: error: 'together' inside 'together'");
  EXPECT_EQ(step_error("together: []"), "6:15: error: 'together' must name at least one step");
}

TEST(ReaderRules, TheRankOfABufferIsGivenOnce) {
  EXPECT_EQ(step_error("{poison: {buffer: send, rank: 0}, rank: 1}"),
            "6:45: error: 'rank' is given here and with the buffer");
}

TEST(ReaderRules, ByStrategyNamesStrategiesThatRun) {
  EXPECT_EQ(step_error("{eager: short, expect: {by_strategy: {ag_ar: {eager_rows: 2}}}}"),
            "6:43: error: 'expect.by_strategy' names 'ag_ar', which is not among the scenario's "
            "strategies");
}

TEST(ReaderRules, ByStrategyIsNotNested) {
  EXPECT_EQ(step_error("{eager: short, expect: {by_strategy: {a2a: {by_strategy: {}}}}}"),
            "6:62: error: 'by_strategy' inside 'by_strategy'");
}

}  // namespace
}  // namespace dcp
