#include "core/scenario_reader.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/core/scenario_texts.hpp"

namespace dcp {
namespace {

using test::error_of;
using test::with_keys;
using test::with_steps;

constexpr double kInf = std::numeric_limits<double>::infinity();

Scenario parse(const std::string& text, const std::vector<Override>& overrides = {}) {
  return parse_scenario("s.yaml", text, overrides);
}

TEST(ScenarioReader, FillsDefaults) {
  const Scenario s = parse(with_keys(""));
  EXPECT_EQ(s.file, "s.yaml");
  EXPECT_EQ(s.text, with_keys(""));
  EXPECT_EQ(s.about, "");
  EXPECT_EQ(s.world_size, 2);
  EXPECT_EQ(s.tensor_parallel_size, 2);
  EXPECT_EQ(s.interleave, 1);
  EXPECT_EQ(s.model.preset, "tiny");
  EXPECT_EQ(s.layers, 1);
  EXPECT_EQ(s.dtype, DType::kBf16);
  EXPECT_EQ(s.lse, (LseTag{LseBase::kE, DType::kFp32}));
  EXPECT_EQ(s.strategies, std::vector<std::string>{"a2a"});
  EXPECT_EQ(s.query, QueryMode::kAllGather);
  EXPECT_EQ(s.attention_split, AttentionSplit::kNone);
  EXPECT_EQ(s.split_kv, std::nullopt);
  EXPECT_EQ(s.reduce_dtype, ReduceDtype::kSame);
  EXPECT_EQ(s.a2a_layout, A2aLayout::kInterleaved);
  EXPECT_EQ(s.direct.slots, 2);
  EXPECT_EQ(s.direct.fallback, DirectFallback::kNone);
  EXPECT_FALSE(s.kv_gather.has_value());
  EXPECT_EQ(s.comm_stream, CommStream::kSeparate);
  EXPECT_TRUE(s.return_lse);
  EXPECT_EQ(s.kv.block_size, 4);
  EXPECT_EQ(s.kv_dtype(), DType::kBf16);
  EXPECT_EQ(s.kv.num_blocks, std::nullopt);
  EXPECT_EQ(s.data.kind, DataKind::kRandom);
  EXPECT_EQ(s.data.seed, 7u);
  EXPECT_EQ(s.graph.capture_sizes, std::nullopt);
  EXPECT_FALSE(s.graph.capture_sizes_vllm);
  EXPECT_EQ(s.graph.ubatches, 1);
  EXPECT_EQ(s.graph.max_num_tokens, std::nullopt);
  EXPECT_EQ(s.graph.pool, GraphPool::kPrivate);
  EXPECT_EQ(s.graph.capture_mode, CaptureMode::kThreadLocal);
  EXPECT_EQ(s.workspace.policy, WorkspacePolicy::kGraphPool);
  EXPECT_TRUE(s.workspace.need.empty());
  ASSERT_EQ(s.batches.size(), 1u);
  EXPECT_EQ(s.batches[0].place.text(), "s.yaml:4:3");
  EXPECT_EQ(s.batches[0].query_start_loc, std::nullopt);
  EXPECT_TRUE(s.steps.empty());
  EXPECT_TRUE(s.only.strategies.empty());
}

TEST(ScenarioReader, ReadsEveryTopLevelKey) {
  const Scenario s = parse(
      "schema: 1\nabout: \"yes\"\nworld_size: 4\ntensor_parallel_size: 8\ninterleave: 16\n"
      "model: deepseek-v3\nlayers: 2\ndtype: fp16\nlse: {base: 2, dtype: bf16}\n"
      "strategy: [ag_rs, direct]\nquery: replicate\nattention_split: context_then_new\nsplit_kv: "
      "3\n"
      "reduce_dtype: fp32\na2a_layout: split\ndirect: {slots: 3, fallback: ag_rs}\n"
      "kv_gather: {tokens: 8, dim: 32, dtype: fp8_e4m3}\ncomm_stream: same\nreturn_lse: false\n"
      "kv: {block_size: 32, dtype: fp8_e4m3, num_blocks: 9}\ndata: {kind: mean, seed: "
      "18446744073709551615}\n"
      "graph: {capture_sizes: [8, 2], ubatches: 2, max_num_tokens: 16, pool: shared, capture_mode: "
      "relaxed}\n"
      "workspace: {policy: growable, need: {8: 100, 2: 140}}\nonly: {strategy: [a2a], backend: "
      "host}\n"
      "batches: {b: {seq_lens: []}}\n");
  EXPECT_EQ(s.about, "yes");
  EXPECT_EQ(s.tensor_parallel_size, 8);
  EXPECT_EQ(s.group_num_heads(), 64);
  EXPECT_EQ(s.interleave, 16);
  EXPECT_EQ(s.layers, 2);
  EXPECT_EQ(s.dtype, DType::kFp16);
  EXPECT_EQ(s.lse, (LseTag{LseBase::kTwo, DType::kBf16}));
  EXPECT_EQ(s.strategies, (std::vector<std::string>{"ag_rs", "direct"}));
  EXPECT_EQ(s.query, QueryMode::kReplicate);
  EXPECT_EQ(s.attention_split, AttentionSplit::kContextThenNew);
  EXPECT_EQ(s.split_kv, 3);
  EXPECT_EQ(s.reduce_dtype, ReduceDtype::kFp32);
  EXPECT_EQ(s.a2a_layout, A2aLayout::kSplit);
  EXPECT_EQ(s.direct.slots, 3);
  EXPECT_EQ(s.direct.fallback, DirectFallback::kAgRs);
  ASSERT_TRUE(s.kv_gather.has_value());
  EXPECT_EQ(s.kv_gather->tokens, 8);
  EXPECT_EQ(s.kv_gather->dim, 32);
  EXPECT_EQ(s.kv_gather->dtype, DType::kFp8E4m3);
  EXPECT_EQ(s.comm_stream, CommStream::kSame);
  EXPECT_FALSE(s.return_lse);
  EXPECT_EQ(s.kv.block_size, 32);
  EXPECT_EQ(s.kv_dtype(), DType::kFp8E4m3);
  EXPECT_EQ(s.kv.num_blocks, 9);
  EXPECT_EQ(s.data.kind, DataKind::kMean);
  EXPECT_EQ(s.data.seed, 18446744073709551615u);
  EXPECT_EQ(s.graph.capture_sizes, (std::vector<std::int64_t>{8, 2}));
  EXPECT_EQ(s.graph.ubatches, 2);
  EXPECT_EQ(s.graph.max_num_tokens, 16);
  EXPECT_EQ(s.graph.pool, GraphPool::kShared);
  EXPECT_EQ(s.graph.capture_mode, CaptureMode::kRelaxed);
  EXPECT_EQ(s.workspace.policy, WorkspacePolicy::kGrowable);
  EXPECT_EQ(s.workspace.need, (std::map<std::int64_t, std::int64_t>{{8, 100}, {2, 140}}));
  EXPECT_EQ(s.only.strategies, std::vector<std::string>{"a2a"});
  EXPECT_EQ(s.only.backend, "host");
}

TEST(ScenarioReader, ReadsTheOtherFormsOfGraphAndWorkspace) {
  const Scenario s = parse(with_keys(
      "workspace: fixed\ngraph:\n  capture_sizes: vllm\n"
      "  max_num_tokens: {max_batched_tokens: 64, max_seqs: 8, spec: 3, decode_query_len: 2}\n"));
  EXPECT_EQ(s.workspace.policy, WorkspacePolicy::kFixed);
  EXPECT_TRUE(s.graph.capture_sizes_vllm);
  ASSERT_TRUE(s.graph.size_rule.has_value());
  EXPECT_EQ(s.graph.size_rule->max_batched_tokens, 64);
  EXPECT_EQ(s.graph.size_rule->max_seqs, 8);
  EXPECT_EQ(s.graph.size_rule->spec, 3);
  EXPECT_EQ(s.graph.size_rule->decode_query_len, 2);
}

TEST(ScenarioReader, LetsBatchesPassWhoseMeaningIsWrong) {
  const Scenario s = parse(
      "world_size: 2\nmodel: tiny\nbatches:\n"
      "  b:\n    seq_lens: [-1, 3]\n    query_start_loc: [2, -1, 0]\n    rows: 9\n"
      "    ubatch_starts: [0, 2]\n    local_seq_lens: [[-5, 1], [6, 2]]\n"
      "  a: {seq_lens: [1], local_seq_lens: null}\n");
  ASSERT_EQ(s.batches.size(), 2u);
  const Batch& batch = s.batches[0];
  EXPECT_EQ(batch.name, "b");
  EXPECT_EQ(batch.seq_lens, (std::vector<std::int64_t>{-1, 3}));
  EXPECT_EQ(batch.query_start_loc, (std::vector<std::int64_t>{2, -1, 0}));
  EXPECT_EQ(batch.rows, 9);
  EXPECT_EQ(batch.ubatch_starts, (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(batch.local_seq_lens, (std::vector<std::vector<std::int64_t>>{{-5, 1}, {6, 2}}));
  EXPECT_EQ(s.batches[1].local_seq_lens, std::nullopt);
}

TEST(ScenarioReader, LeavesHeadsPerRankToTheStep) {
  EXPECT_EQ(parse("world_size: 3\nmodel: tiny\nbatches: {b: {seq_lens: [5]}}").group_num_heads(),
            8);
}

TEST(ScenarioReader, ReadsHandGivenAndExtendedModels) {
  const auto model = [](const std::string& text) {
    return parse("world_size: 2\nmodel: " + text + "\nbatches: {b: {seq_lens: [5]}}");
  };
  const Scenario mla = model("{attention: mla, num_heads: 4, kv_lora_rank: 32, rope_dim: 4}");
  EXPECT_EQ(mla.model.preset, "");
  EXPECT_EQ(mla.model.softmax_scale, 1.0 / 6.0);
  EXPECT_EQ(mla.kv.block_size, 64);
  const Scenario gqa =
      model("{attention: gqa, num_heads: 4, num_kv_heads: 2, head_dim: 64, softmax_scale: 5e-1}");
  EXPECT_EQ(gqa.model.num_kv_heads, 2);
  EXPECT_EQ(gqa.model.v_head_dim(), 64);
  EXPECT_EQ(gqa.model.softmax_scale, 0.5);
  EXPECT_EQ(gqa.kv.block_size, 16);
  const Scenario deep =
      model("{extends: deepseek-v3, num_heads: 16, rope_dim: 32, padded_num_heads: 128}");
  EXPECT_EQ(deep.model.num_heads, 16);
  EXPECT_EQ(deep.model.padded_num_heads, 128);
  EXPECT_EQ(deep.model.softmax_scale, 1.0 / std::sqrt(192.0));
  const Scenario tiny = model("{extends: tiny, kv_lora_rank: 8}");
  EXPECT_EQ(tiny.model.softmax_scale, 0.25);
  EXPECT_EQ(tiny.kv.block_size, 4);
}

TEST(ScenarioReader, ReadsGivenPartials) {
  const Scenario s =
      parse(with_keys("data:\n  kind: given\n  lse: [-inf, [[.nan, 1], [+.INF, -2.5]]]\n  out: [0, "
                      "[[[1, 2]], [[3, 4e2]]]]\n"));
  ASSERT_EQ(s.data.given_lse.size(), 2u);
  EXPECT_TRUE(s.data.given_lse[0].shape.empty());
  EXPECT_EQ(s.data.given_lse[0].values, std::vector<double>{-kInf});
  EXPECT_EQ(s.data.given_lse[1].shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_TRUE(std::isnan(s.data.given_lse[1].values[0]));
  EXPECT_EQ(s.data.given_lse[1].values[2], kInf);
  EXPECT_EQ(s.data.given_lse[1].values[3], -2.5);
  EXPECT_EQ(s.data.given_lse[1].place.text(), "s.yaml:5:15");
  EXPECT_EQ(s.data.given_out[1].shape, (std::vector<std::int64_t>{2, 1, 2}));
  EXPECT_EQ(s.data.given_out[1].values, (std::vector<double>{1, 2, 3, 400}));
}

TEST(ScenarioReader, TakesTheSpellingsOfVllm) {
  const Scenario s = parse(
      "decode_context_parallel_size: 4\ncp_kv_cache_interleave_size: 16\ndcp_comm_backend: ag_rs\n"
      "cudagraph_capture_sizes: [4, 2]\nmodel: tiny\nbatches: {b: {seq_lens: [5]}}\n");
  EXPECT_EQ(s.world_size, 4);
  EXPECT_EQ(s.interleave, 16);
  EXPECT_EQ(s.strategies, std::vector<std::string>{"ag_rs"});
  EXPECT_EQ(s.graph.capture_sizes, (std::vector<std::int64_t>{4, 2}));
  EXPECT_EQ(s.aliases_used, (std::map<std::string, std::string>{
                                {"decode_context_parallel_size", "world_size"},
                                {"cp_kv_cache_interleave_size", "interleave"},
                                {"dcp_comm_backend", "strategy"},
                                {"cudagraph_capture_sizes", "graph.capture_sizes"}}));
  const Scenario inside = parse(with_keys("graph: {cudagraph_capture_sizes: [2], ubatches: 2}\n"));
  EXPECT_EQ(inside.graph.capture_sizes, std::vector<std::int64_t>{2});
  EXPECT_EQ(inside.graph.ubatches, 2);
  EXPECT_EQ(error_of(with_keys("cudagraph_capture_sizes: [2]\ngraph: {capture_sizes: [2]}\n")),
            "s.yaml:3:1: error: 'cudagraph_capture_sizes' is another spelling of "
            "'graph.capture_sizes', which is given too");
}

TEST(ScenarioReader, TakesOverridesOverTheFile) {
  const std::string text = with_keys("interleave: 4\nkv_gather: null\n");
  const Scenario s = parse(text, {{"interleave", "8"},
                                  {"graph.ubatches", "2"},
                                  {"batches.short.seq_lens", "[7, 1]"},
                                  {"model.num_heads", "16"},
                                  {"kv_gather.tokens", "4"},
                                  {"kv_gather.dim", "16"},
                                  {"decode_context_parallel_size", "4"},
                                  {"strategy", "[a2a, ag_ar]"}});
  EXPECT_EQ(s.interleave, 8);
  EXPECT_EQ(s.graph.ubatches, 2);
  EXPECT_EQ(s.batches[0].seq_lens, (std::vector<std::int64_t>{7, 1}));
  EXPECT_EQ(s.model.preset, "tiny");
  EXPECT_EQ(s.model.num_heads, 16);
  EXPECT_EQ(s.kv_gather->tokens, 4);
  EXPECT_EQ(s.world_size, 4);
  EXPECT_EQ(s.aliases_used.at("decode_context_parallel_size"), "world_size");
  EXPECT_EQ(s.strategies.size(), 2u);
  EXPECT_EQ(s.text, text);
}

TEST(ScenarioReader, PlacesErrorsOfOverridesOnTheCommandLine) {
  const std::string text = with_keys("");
  EXPECT_EQ(error_of(text, {{"layers", "0"}}),
            "--set layers=0: error: 'layers' must be in 1 .. 1024, not 0");
  EXPECT_EQ(error_of(text, {{"graph.ubatchs", "2"}}),
            "--set graph.ubatchs=2: error: unknown key 'ubatchs' (did you mean 'ubatches'?)");
  EXPECT_EQ(error_of(text, {{"world_size.x", "2"}}),
            "--set world_size.x=2: error: 'world_size' must be a map, not '2'");
  EXPECT_EQ(error_of(text, {{"a..b", "2"}}),
            "--set a..b=2: error: a dotted key such as graph.ubatches is expected");
  EXPECT_EQ(error_of(text, {{"layers", ""}}), "--set layers=: error: the document is empty");
  EXPECT_EQ(error_of(text, {{"layers", "1\t"}}),
            "--set layers=1\\t: error: a tab is not allowed: use spaces");
}

TEST(ScenarioReader, ReadsEveryVerb) {
  const Scenario s = parse(with_steps(R"(  - capture: all
  - capture: [4, 2]
  - capture: {graph: g, rows: 4, batch: short}
  - {replay: short, name: first, rank: 1}
  - replay: {graph: g, batch: short, times: 3, stream: s1, wait: false}
  - eager: {batch: short, stream: s1, wait: false}
  - together: [{replay: short, rank: 0}, {replay: short, rank: 1}]
  - sync: all
  - lock: workspace
  - grow: {workspace: 16}
  - allocate: {name: extra, bytes: 64, in: pool}
  - free: extra
  - rebind: {buffer: seq_lens, graph: g, ubatch: 1, rank: 1, generation: 2}
  - remap: {buffer: send}
  - poison: {buffer: send, row: 3}
  - canary: recv
  - check_canary: recv
  - stub_attention: nan_pad
  - set: {epoch: 4294967294}
  - stall: {at: publish, until: last}
  - skip: {op: out_proj}
  - during_capture: {call: cudaMalloc, thread: other}
  - throw: {at: a2a_pack}
  - fork: s1
  - join: s1
  - place: {ubatch: 1, stream: s1}
  - destroy: {graph: g}
  - {destroy: {comm: all}, name: last}
)"));
  ASSERT_EQ(s.steps.size(), std::variant_size_v<Verb> + 4);
  const auto verb_at = [&]<class V>(std::size_t index, V) {
    return std::get<V>(s.steps[index].verb);
  };
  EXPECT_TRUE(verb_at(0, verb::Capture{}).all);
  EXPECT_EQ(verb_at(1, verb::Capture{}).sizes, (std::vector<std::int64_t>{4, 2}));
  EXPECT_EQ(verb_at(2, verb::Capture{}).graph, "g");
  EXPECT_EQ(verb_at(2, verb::Capture{}).rows, 4);
  EXPECT_EQ(verb_at(2, verb::Capture{}).batch, "short");
  EXPECT_EQ(s.steps[3].name, "first");
  EXPECT_EQ(s.steps[3].rank, 1);
  EXPECT_EQ(s.steps[3].verb_name, "replay");
  EXPECT_EQ(s.steps[3].place.text(), "s.yaml:9:5");
  EXPECT_EQ(verb_at(4, verb::Replay{}).times, 3);
  EXPECT_EQ(verb_at(4, verb::Replay{}).stream, "s1");
  EXPECT_FALSE(verb_at(4, verb::Replay{}).wait);
  EXPECT_FALSE(verb_at(5, verb::Eager{}).wait);
  EXPECT_EQ(verb_at(6, verb::Together{}).steps.at(1).rank, 1);
  EXPECT_EQ(verb_at(9, verb::Grow{}).rows, 16);
  EXPECT_EQ(verb_at(10, verb::Allocate{}).size_bytes, 64);
  EXPECT_EQ(verb_at(10, verb::Allocate{}).where, "pool");
  EXPECT_EQ(verb_at(11, verb::Free{}).buffer.buffer, "extra");
  const BufferRef rebound = verb_at(12, verb::Rebind{}).buffer;
  EXPECT_EQ(rebound.buffer, "seq_lens");
  EXPECT_EQ(rebound.graph, "g");
  EXPECT_EQ(rebound.ubatch, 1);
  EXPECT_EQ(rebound.rank, 1);
  EXPECT_EQ(rebound.generation, 2);
  EXPECT_EQ(verb_at(14, verb::Poison{}).buffer.row, 3);
  EXPECT_EQ(verb_at(15, verb::Canary{}).buffer.buffer, "recv");
  EXPECT_EQ(verb_at(17, verb::StubAttention{}).mode, verb::StubMode::kNanPad);
  EXPECT_EQ(verb_at(18, verb::Set{}).value, "4294967294");
  EXPECT_EQ(verb_at(19, verb::Stall{}).until, "last");
  EXPECT_EQ(verb_at(20, verb::Skip{}).op, "out_proj");
  EXPECT_TRUE(verb_at(21, verb::DuringCapture{}).other_thread);
  EXPECT_EQ(verb_at(22, verb::Throw{}).at, "a2a_pack");
  EXPECT_EQ(verb_at(25, verb::Place{}).ubatch, 1);
  EXPECT_EQ(verb_at(26, verb::Destroy{}).graph, "g");
  EXPECT_EQ(verb_at(27, verb::Destroy{}).graph, "");
}

TEST(ScenarioReader, ReadsExpectations) {
  const Scenario s = parse(with_steps(R"(  - {eager: short, name: first}
  - eager: short
    expect:
      out: {0: 1.5, 3: .nan}
      lse: {1: -inf}
      empty_rows: [3, 2]
      hazards: [stale_pointer, {kind: pool_alias, graph: g2, buffer: send, node: combine, rank: 1, ubatch: 0}]
      failures: [{kind: mismatch, graph: g2, rank: 1}]
      same_bits_as: first
      eager_rows: 2
      by_strategy: {a2a: {same_bits_as: 0}}
  - {eager: short, expect: {error: capacity}}
)"));
  ASSERT_TRUE(s.steps.at(1).expect.has_value());
  const Expect& expect = *s.steps[1].expect;
  EXPECT_EQ(expect.out.at(0), 1.5);
  EXPECT_TRUE(std::isnan(expect.out.at(3)));
  EXPECT_EQ(expect.lse.at(1), -kInf);
  EXPECT_EQ(expect.empty_rows, (std::vector<std::int64_t>{3, 2}));
  ASSERT_EQ(expect.hazards.size(), 2u);
  EXPECT_EQ(expect.hazards[0].kind, "stale_pointer");
  EXPECT_EQ(expect.hazards[1].graph, "g2");
  EXPECT_EQ(expect.hazards[1].buffer, "send");
  EXPECT_EQ(expect.hazards[1].node, "combine");
  EXPECT_EQ(expect.hazards[1].rank, 1);
  EXPECT_EQ(expect.hazards[1].ubatch, 0);
  ASSERT_EQ(expect.failures.size(), 1u);
  EXPECT_EQ(expect.failures[0].kind, "mismatch");
  EXPECT_EQ(expect.failures[0].graph, "g2");
  EXPECT_EQ(expect.failures[0].rank, 1);
  EXPECT_EQ(s.steps.at(2).expect.value().error, "capacity");
  EXPECT_EQ(expect.same_bits_as, "first");
  EXPECT_EQ(expect.eager_rows, 2);
  EXPECT_EQ(expect.by_strategy.at("a2a").same_bits_as, "0");
}

TEST(ScenarioReader, KeepsThePlaceOfEveryKey) {
  const Scenario s =
      parse(with_keys("graph: {ubatches: 2}\n") + "steps:\n  - eager: {batch: short}\n");
  EXPECT_EQ(s.places.at("graph").text(), "s.yaml:3:8");
  EXPECT_EQ(s.places.at("graph.ubatches").text(), "s.yaml:3:19");
  EXPECT_EQ(s.places.at("batches.short.seq_lens").text(), "s.yaml:5:21");
  EXPECT_EQ(s.places.at("steps.0.eager.batch").text(), "s.yaml:7:20");
}

}  // namespace
}  // namespace dcp
