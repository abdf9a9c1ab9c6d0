// Verbs that bend the rules: stub_attention, set, stall, skip, during_capture, throw, fork, join,
// place.
#include "core/reader/map_reader.hpp"
#include "core/reader/read_verbs.hpp"
#include "core/reader/words.hpp"

namespace dcp::reader {

namespace {

constexpr Word<verb::StubMode> kStubModes[] = {{"exact", verb::StubMode::kExact},
                                               {"poison_empty", verb::StubMode::kPoisonEmpty},
                                               {"plus_inf", verb::StubMode::kPlusInf},
                                               {"nan_pad", verb::StubMode::kNanPad},
                                               {"untouched", verb::StubMode::kUntouched}};

// A number in one of the format's spellings, or a word; which of them fits is the engine's to say.
std::string read_set_value(const YamlNode& node, const std::string& key) {
  const char first = node.text.empty() ? '\0' : node.text.front();
  const bool is_number = node.is_plain() && (first == '-' || (first >= '0' && first <= '9'));
  if (!is_number) return read_name(node, key);
  read_real(node, key);
  return node.text;
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
  set.value = read_set_value(entry.value, key + "." + set.key);
  return set;
}

Verb read_stall(const YamlNode& value, const std::string& key, StepScope& scope) {
  constexpr std::string_view kPoints[] = {"publish", "wait", "read", "combine"};
  const MapReader map(value, key, {"at", "until"});
  verb::Stall stall;
  stall.at = kPoints[read_choice(map.require("at"), map.path("at"), kPoints)];
  map.required("until", read_name, stall.until);
  scope.until.emplace_back(map.find("until"), stall.until);
  return stall;
}

Verb read_skip(const YamlNode& value, const std::string& key, StepScope&) {
  const MapReader map(value, key, {"op"});
  verb::Skip skip;
  map.required("op", read_name, skip.op);
  return skip;
}

Verb read_during_capture(const YamlNode& value, const std::string& key, StepScope&) {
  constexpr std::string_view kThreads[] = {"same", "other"};
  const MapReader map(value, key, {"call", "thread", "from", "to"});
  verb::DuringCapture during;
  map.required("call", read_name, during.call);
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
  map.required("at", read_name, thrown.at);
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
