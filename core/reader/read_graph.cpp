#include "core/reader/map_reader.hpp"
#include "core/reader/parts.hpp"
#include "core/reader/words.hpp"

namespace dcp::reader {

namespace {

constexpr Word<GraphPool> kPools[] = {{"private", GraphPool::kPrivate},
                                      {"shared", GraphPool::kShared}};

constexpr Word<CaptureMode> kCaptureModes[] = {{"thread_local", CaptureMode::kThreadLocal},
                                               {"global", CaptureMode::kGlobal},
                                               {"relaxed", CaptureMode::kRelaxed}};

void read_capture_sizes(const YamlNode& node, const std::string& key, GraphSpec& graph) {
  if (node.kind == YamlNode::Kind::kScalar && node.text == "vllm") {
    graph.capture_sizes_vllm = true;
  } else if (node.kind == YamlNode::Kind::kList) {
    graph.capture_sizes = read_distinct(node, key, {1, kMaxRows});
  } else {
    refuse_type(node, key, "a list of rows or 'vllm'");
  }
}

SizeRule read_size_rule(const YamlNode& node) {
  const MapReader map(node, "graph.max_num_tokens",
                      {"max_batched_tokens", "max_seqs", "spec", "decode_query_len"});
  SizeRule rule;
  map.required("max_batched_tokens", integer(1, kMaxRows), rule.max_batched_tokens);
  map.required("max_seqs", integer(1, kMaxRows), rule.max_seqs);
  map.optional("spec", integer(0, kMaxRows), rule.spec);
  map.optional("decode_query_len", integer(1, kMaxRows), rule.decode_query_len);
  return rule;
}

}  // namespace

GraphSpec read_graph(const YamlNode& node) {
  const MapReader map(node, "graph",
                      {"capture_sizes", "ubatches", "max_num_tokens", "pool", "capture_mode"},
                      {"cudagraph_capture_sizes"});
  GraphSpec graph;
  if (const YamlNode* sizes = map.find("capture_sizes")) {
    read_capture_sizes(*sizes, map.path("capture_sizes"), graph);
  }
  map.optional("ubatches", integer(1, kMaxUbatches), graph.ubatches);
  const YamlNode* max_num_tokens = map.find("max_num_tokens");
  if (max_num_tokens != nullptr && max_num_tokens->kind == YamlNode::Kind::kMap) {
    graph.size_rule = read_size_rule(*max_num_tokens);
  } else {
    map.optional("max_num_tokens", integer(1, kMaxRows), graph.max_num_tokens);
  }
  map.optional("pool", one_of(kPools), graph.pool);
  map.optional("capture_mode", one_of(kCaptureModes), graph.capture_mode);
  return graph;
}

}  // namespace dcp::reader
