// Verbs that bend the rules: stub_attention, set, stall, skip, during_capture, throw, fork, join,
// place.
#include <limits>

#include "core/reader/map_reader.hpp"
#include "core/reader/read_verbs.hpp"
#include "core/reader/words.hpp"
#include "core/step_words.hpp"

namespace dcp::reader {

namespace {

constexpr Word<verb::StubMode> kStubModes[] = {{"exact", verb::StubMode::kExact},
                                               {"poison_empty", verb::StubMode::kPoisonEmpty},
                                               {"plus_inf", verb::StubMode::kPlusInf},
                                               {"nan_pad", verb::StubMode::kNanPad},
                                               {"untouched", verb::StubMode::kUntouched}};

using ReadWord = std::string (*)(const YamlNode& node, const std::string& key);

// Of a closed list; one that is misspelt is told which it might be.
std::string read_word(const YamlNode& node, const std::string& key,
                      std::span<const std::string_view> words) {
  return std::string(words[read_choice(node, key, words)]);
}

std::string read_base(const YamlNode& node, const std::string& key) {
  constexpr std::string_view kBases[] = {"e", "2"};
  return read_word(node, key, kBases);
}

std::string read_lse_dtype(const YamlNode& node, const std::string& key) {
  constexpr std::string_view kDTypes[] = {"fp32", "fp16", "bf16"};
  return read_word(node, key, kDTypes);
}

std::string read_edge(const YamlNode& node, const std::string& key) {
  constexpr std::string_view kEdges[] = {"fork", "join", "append"};
  return read_word(node, key, kEdges);
}

std::string read_metadata(const YamlNode& node, const std::string& key) {
  return read_kind(node, key, metadata_words());
}

std::string read_epoch(const YamlNode& node, const std::string& key) {
  return std::to_string(read_integer(node, key, {0, std::numeric_limits<std::uint32_t>::max()}));
}

// One that the scenario has no room for is an error of the step, which may expect it.
std::string read_number(const YamlNode& node, const std::string& key) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  return std::to_string(read_integer(node, key, {-kMax - 1, kMax}));
}

constexpr Word<ReadWord> kSetValues[] = {
    {"epoch", read_epoch},         {"lse_base", read_base},      {"lse_dtype", read_lse_dtype},
    {"slot_mapping", read_number}, {"block_table", read_number}, {"strategy", read_name},
    {"ubatch", read_number},       {"keep", read_metadata},      {"keep_tail", read_metadata},
    {"num_requests", read_number}, {"max_seq_len", read_number}, {"workspace_ubatch", read_number},
    {"drop_edge", read_edge},      {"load_stream", read_name},
};

std::string read_operation(const YamlNode& node, const std::string& key) {
  return read_kind(node, key, operation_words());
}

std::string read_call(const YamlNode& node, const std::string& key) {
  return read_kind(node, key, capture_calls());
}

// A number is an index elsewhere, and never a name.
std::string read_later_step(const YamlNode& node, const std::string& key) {
  const bool is_number = node.kind == YamlNode::Kind::kScalar && !node.text.empty() &&
                         node.text.find_first_not_of("0123456789") == std::string::npos;
  if (is_number) refuse_type(node, key, "the name of a step, which is no number");
  return read_name(node, key);
}

}  // namespace

Verb read_stub_attention(const YamlNode& value, const std::string& key, StepScope&) {
  return verb::StubAttention{one_of(kStubModes)(value, key)};
}

Verb read_set(const YamlNode& value, const std::string& key, StepScope&) {
  if (value.kind != YamlNode::Kind::kMap || value.entries.size() != 1) {
    refuse(value, "'set' must be a map of one key");
  }
  const YamlNode::Entry& entry = value.entries.front();
  verb::Set set;
  set.key = read_kind(entry.key, key, settable_values());
  set.value = one_of(kSetValues)(entry.key, key)(entry.value, key + "." + set.key);
  return set;
}

Verb read_stall(const YamlNode& value, const std::string& key, StepScope& scope) {
  constexpr std::string_view kPoints[] = {"publish", "wait", "read", "combine"};
  const MapReader map(value, key, {"at", "until"});
  verb::Stall stall;
  stall.at = kPoints[read_choice(map.require("at"), map.path("at"), kPoints)];
  map.required("until", read_later_step, stall.until);
  scope.until.emplace_back(map.find("until"), stall.until);
  return stall;
}

Verb read_skip(const YamlNode& value, const std::string& key, StepScope&) {
  const MapReader map(value, key, {"op"});
  verb::Skip skip;
  map.required("op", read_operation, skip.op);
  return skip;
}

Verb read_during_capture(const YamlNode& value, const std::string& key, StepScope&) {
  constexpr std::string_view kThreads[] = {"same", "other"};
  const MapReader map(value, key, {"call", "thread", "from", "to"});
  verb::DuringCapture during;
  map.required("call", read_call, during.call);
  const bool is_copy = during.call == "cudaMemcpyAsync";
  for (const auto& [name, end] : {std::pair{"from", &during.from}, {"to", &during.to}}) {
    const YamlNode* node = map.find(name);
    if ((node != nullptr) != is_copy) {
      refuse(node != nullptr ? *node : value, "'" + map.path(name) +
                                                  "' belongs to the call cudaMemcpyAsync, which "
                                                  "needs it");
    }
    if (node != nullptr) end->emplace().buffer = read_name(*node, map.path(name));
  }
  if (const YamlNode* thread = map.find("thread")) {
    during.other_thread = read_choice(*thread, map.path("thread"), kThreads) == 1;
  }
  return during;
}

Verb read_throw(const YamlNode& value, const std::string& key, StepScope&) {
  const MapReader map(value, key, {"at"});
  verb::Throw thrown;
  map.required("at", read_operation, thrown.at);
  return thrown;
}

Verb read_fork(const YamlNode& value, const std::string& key, StepScope&) {
  return verb::Fork{read_name(value, key)};
}

Verb read_join(const YamlNode& value, const std::string& key, StepScope&) {
  return verb::Join{read_name(value, key)};
}

Verb read_place(const YamlNode& value, const std::string& key, StepScope&) {
  const MapReader map(value, key, {"ubatch", "stream"});
  verb::Place place;
  map.required("ubatch", integer(0, kMaxUbatches - 1), place.ubatch);
  map.required("stream", read_name, place.stream);
  return place;
}

}  // namespace dcp::reader
