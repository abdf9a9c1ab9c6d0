#include "core/reader/tree_edits.hpp"

#include <algorithm>

#include "core/reader/scalars.hpp"

namespace dcp::reader {

namespace {

struct Alias {
  std::string_view spelling;  // dotted
  std::string_view key;       // dotted
};

// What vLLM's users write.
constexpr Alias kAliases[] = {
    {"decode_context_parallel_size", "world_size"},
    {"cp_kv_cache_interleave_size", "interleave"},
    {"cudagraph_capture_sizes", "graph.capture_sizes"},
    {"graph.cudagraph_capture_sizes", "graph.capture_sizes"},
    {"dcp_comm_backend", "strategy"},
};

// Keys whose plain word is short for a map of this one key.
constexpr Alias kShortForms[] = {{"model", "extends"}, {"workspace", "policy"}};

std::vector<std::string> split(std::string_view dotted) {
  std::vector<std::string> parts;
  for (std::size_t dot; (dot = dotted.find('.')) != std::string_view::npos;) {
    parts.emplace_back(dotted.substr(0, dot));
    dotted.remove_prefix(dot + 1);
  }
  parts.emplace_back(dotted);
  return parts;
}

YamlNode scalar(std::string text, const Place& place) {
  return {.kind = YamlNode::Kind::kScalar, .text = std::move(text), .place = place, .entries = {}};
}

YamlNode empty_map(const Place& place) {
  return {.kind = YamlNode::Kind::kMap, .place = place, .entries = {}};
}

// The map that holds the last part of the dotted key; null where it is absent.
YamlNode* find_parent(YamlNode& root, const std::vector<std::string>& parts) {
  YamlNode* map = &root;
  for (std::size_t i = 0; i + 1 < parts.size() && map != nullptr; ++i) map = map->find(parts[i]);
  return map;
}

// The map at `parts` without the last one; missing maps are created at `place`.
YamlNode& make_parent(YamlNode& root, const std::vector<std::string>& parts, const Place& place) {
  YamlNode* map = &root;
  std::string path;
  for (std::size_t i = 0;; ++i) {
    const auto* short_form = std::find_if(std::begin(kShortForms), std::end(kShortForms),
                                          [&](const Alias& form) { return form.spelling == path; });
    if (map->kind == YamlNode::Kind::kScalar && short_form != std::end(kShortForms)) {
      YamlNode key = scalar(std::string(short_form->key), map->place);
      YamlNode written_out = empty_map(map->place);
      written_out.entries.push_back({std::move(key), std::move(*map)});
      *map = std::move(written_out);
    }
    if (map->kind == YamlNode::Kind::kNull) *map = empty_map(place);
    if (map->kind != YamlNode::Kind::kMap) {
      throw InputError(place, path.empty() ? "a scenario must be a map of keys"
                                           : "'" + path + "' must be a map, not " + describe(*map));
    }
    if (i + 1 == parts.size()) return *map;
    path += (path.empty() ? "" : ".") + parts[i];
    YamlNode* next = map->find(parts[i]);
    if (next == nullptr) {
      map->entries.push_back({scalar(parts[i], place), empty_map(place)});
      next = &map->entries.back().value;
    }
    map = next;
  }
}

void rename_alias(YamlNode& root, const Alias& alias, std::map<std::string, std::string>& used) {
  const std::vector<std::string> from = split(alias.spelling);
  const std::vector<std::string> to = split(alias.key);
  YamlNode* parent = find_parent(root, from);
  if (parent == nullptr) return;
  const auto found =
      std::find_if(parent->entries.begin(), parent->entries.end(),
                   [&](const YamlNode::Entry& entry) { return entry.key.text == from.back(); });
  if (found == parent->entries.end()) return;
  YamlNode::Entry entry = std::move(*found);
  parent->entries.erase(found);
  used[from.back()] = alias.key;

  YamlNode& target = make_parent(root, to, entry.key.place);
  if (target.find(to.back()) != nullptr) {
    refuse(entry.key, "'" + from.back() + "' is another spelling of '" + std::string(alias.key) +
                          "', which is given too");
  }
  entry.key.text = to.back();
  target.entries.push_back(std::move(entry));
}

void collect_places(const YamlNode& node, const std::string& path,
                    std::map<std::string, Place>& places) {
  const std::string prefix = path.empty() ? "" : path + ".";
  for (const YamlNode::Entry& entry : node.entries) {
    places[prefix + entry.key.text] = entry.value.place;
    collect_places(entry.value, prefix + entry.key.text, places);
  }
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    if (node.items[i].kind != YamlNode::Kind::kMap) continue;
    places[prefix + std::to_string(i)] = node.items[i].place;
    collect_places(node.items[i], prefix + std::to_string(i), places);
  }
}

}  // namespace

void rename_aliases(YamlNode& root, std::map<std::string, std::string>& aliases_used) {
  if (root.kind != YamlNode::Kind::kMap) return;  // refused by whoever reads it
  for (const Alias& alias : kAliases) rename_alias(root, alias, aliases_used);
}

void apply_override(YamlNode& root, const Override& override,
                    std::map<std::string, std::string>& aliases_used) {
  const Place place{"--set " + override.key + "=" + override.value};
  std::string key = override.key;
  for (const Alias& alias : kAliases) {
    if (key != alias.spelling) continue;
    aliases_used[split(alias.spelling).back()] = alias.key;
    key = alias.key;
  }
  const std::vector<std::string> parts = split(key);
  if (std::find(parts.begin(), parts.end(), "") != parts.end()) {
    throw InputError(place, "a dotted key such as graph.ubatches is expected");
  }
  YamlNode value = parse_yaml_value(place, override.value);
  YamlNode& parent = make_parent(root, parts, place);
  std::erase_if(parent.entries,
                [&](const YamlNode::Entry& entry) { return entry.key.text == parts.back(); });
  parent.entries.push_back({scalar(parts.back(), place), std::move(value)});
}

std::map<std::string, Place> places_of_keys(const YamlNode& root) {
  std::map<std::string, Place> places;
  collect_places(root, "", places);
  return places;
}

}  // namespace dcp::reader
