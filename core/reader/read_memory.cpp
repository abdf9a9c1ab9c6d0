// kv, kv_gather, workspace, direct: what the step keeps in memory.
#include "core/model_presets.hpp"
#include "core/reader/map_reader.hpp"
#include "core/reader/parts.hpp"

namespace dcp::reader {

namespace {

constexpr int kMaxBlockSize = 65536;
constexpr int kMaxSlots = 16;
constexpr int kMaxGatherDim = 65536;

constexpr Word<bool> kKvDTypes[] = {{"same", false}, {"fp8_e4m3", true}};

constexpr Word<DType> kGatherDTypes[] = {
    {"fp16", DType::kFp16}, {"bf16", DType::kBf16}, {"fp8_e4m3", DType::kFp8E4m3}};

constexpr Word<WorkspacePolicy> kPolicies[] = {{"graph_pool", WorkspacePolicy::kGraphPool},
                                               {"fixed", WorkspacePolicy::kFixed},
                                               {"growable", WorkspacePolicy::kGrowable}};

constexpr Word<DirectFallback> kFallbacks[] = {{"none", DirectFallback::kNone},
                                               {"a2a", DirectFallback::kA2a},
                                               {"ag_rs", DirectFallback::kAgRs}};

constexpr Word<DirectForm> kForms[] = {{"steps", DirectForm::kSteps},
                                       {"fused", DirectForm::kFused}};

std::map<std::int64_t, std::int64_t> read_need(const YamlNode& node, const std::string& key) {
  if (node.kind != YamlNode::Kind::kMap) refuse_type(node, key, "a map of rows to bytes");
  std::map<std::int64_t, std::int64_t> need;
  for (const YamlNode::Entry& entry : node.entries) {
    const std::int64_t rows = read_integer(entry.key, key + " (rows)", {1, kMaxRows});
    need[rows] = read_integer(entry.value, key + "." + entry.key.text, {0, kMaxBytes});
  }
  return need;
}

}  // namespace

KvSpec read_kv(const YamlNode* node, const Model& model) {
  KvSpec kv{.block_size = default_block_size(model), .num_blocks = {}};
  if (node == nullptr) return kv;
  const MapReader map(*node, "kv", {"block_size", "dtype", "num_blocks"});
  map.optional("block_size", integer(1, kMaxBlockSize), kv.block_size);
  map.optional("num_blocks", integer(1, kMaxInt32), kv.num_blocks);
  map.optional("dtype", one_of(kKvDTypes), kv.is_fp8);
  return kv;
}

KvGatherSpec read_kv_gather(const YamlNode& node) {
  const MapReader map(node, "kv_gather", {"tokens", "dim", "dtype"});
  KvGatherSpec gather;
  map.required("tokens", integer(1, kMaxRows), gather.tokens);
  map.required("dim", integer(1, kMaxGatherDim), gather.dim);
  map.optional("dtype", one_of(kGatherDTypes), gather.dtype);
  return gather;
}

WorkspaceSpec read_workspace(const YamlNode& node) {
  WorkspaceSpec workspace;
  if (node.kind == YamlNode::Kind::kScalar) {
    workspace.policy = one_of(kPolicies)(node, "workspace");
    return workspace;
  }
  const MapReader map(node, "workspace", {"policy", "need"});
  map.optional("policy", one_of(kPolicies), workspace.policy);
  map.optional("need", read_need, workspace.need);
  return workspace;
}

DirectSpec read_direct(const YamlNode& node) {
  const MapReader map(node, "direct", {"slots", "fallback", "form"});
  DirectSpec direct;
  map.optional("slots", integer(1, kMaxSlots), direct.slots);
  map.optional("fallback", one_of(kFallbacks), direct.fallback);
  map.optional("form", one_of(kForms), direct.form);
  return direct;
}

}  // namespace dcp::reader
