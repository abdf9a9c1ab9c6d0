#include "core/yaml_tree.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>

#include "core/yaml_text.hpp"

namespace dcp {

const YamlNode* YamlNode::find(std::string_view key) const {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const Entry& entry) { return entry.key.text == key; });
  return found == entries.end() ? nullptr : &found->value;
}

YamlNode* YamlNode::find(std::string_view key) {
  return const_cast<YamlNode*>(std::as_const(*this).find(key));
}

namespace {

// At the end of the text yaml-cpp takes whatever stands before an open bracket for a key.
constexpr const char* kNoKey = "a key must be a word (is a bracket not closed?)";

// Turns yaml-cpp's marks into places. yaml-cpp counts bytes; places count characters.
class Places {
 public:
  Places(const std::string& file, std::string_view text)
      : file_(file), end_(place_of_byte(file, text, text.size())) {
    characters_before_.reserve(text.size() + 1);
    int characters = 0;
    for (const char byte : text) {
      characters_before_.push_back(characters);
      if ((static_cast<unsigned char>(byte) & 0xC0u) != 0x80u) ++characters;
    }
    characters_before_.push_back(characters);
  }
  explicit Places(const Place& fixed) : end_(fixed), fixed_(fixed) {}

  const Place& end() const { return end_; }

  Place of(const YAML::Mark& mark) const {
    if (fixed_) return *fixed_;
    if (mark.is_null()) return {file_, 1, 1};
    const std::size_t last = characters_before_.size() - 1;
    const std::size_t offset = std::min(static_cast<std::size_t>(mark.pos), last);
    const std::size_t column = std::min(static_cast<std::size_t>(mark.column), offset);
    const int characters = characters_before_[offset] - characters_before_[offset - column];
    return {file_, mark.line + 1, characters + 1};
  }

 private:
  std::string file_;
  Place end_;
  std::optional<Place> fixed_;
  std::vector<int> characters_before_;  // [text size + 1]
};

// Builds the tree from yaml-cpp's events and refuses what yaml-cpp lets through.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const Places& places, std::string_view text) : places_(places), text_(text) {}

  YamlNode take_root() { return std::move(root_); }
  bool has_document() const { return has_document_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (has_document_) refuse(mark, "further documents are not supported");
    has_document_ = true;
  }
  void OnDocumentEnd() override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "anchors and aliases are not supported");
  }
  void OnAnchor(const YAML::Mark& mark, const std::string&) override {
    refuse(mark, "anchors and aliases are not supported");
  }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse_properties(mark);
    if (expects_key()) refuse(mark, kNoKey);
    YamlNode node{.kind = YamlNode::Kind::kNull, .place = places_.of(mark), .entries = {}};
    if (!is_written_null(mark)) refuse_absent(mark);
    add(std::move(node));
  }

  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string& value) override {
    refuse_properties(mark);
    const char first = at(mark);
    YamlNode node{
        .kind = YamlNode::Kind::kScalar, .text = value, .place = places_.of(mark), .entries = {}};
    node.quoted = first == '"' || first == '\'' || first == '|' || first == '>';
    if ((first == '"' || first == '\'') && !is_closed(mark))
      refuse(mark, "the quote is not closed");
    add(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(mark, YamlNode::Kind::kList);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open(mark, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Level {
    YamlNode node;
    std::optional<YamlNode> key;             // map: waits for its value
    std::map<std::string, int> line_of_key;  // map: keys so far
  };

  [[noreturn]] void refuse(const YAML::Mark& mark, std::string_view message) const {
    throw InputError(places_.of(mark), message);
  }

  char at(const YAML::Mark& mark) const {
    const auto offset = static_cast<std::size_t>(mark.pos);
    return offset < text_.size() ? text_[offset] : '\0';
  }

  // A node starts with its anchor or tag; no plain scalar can start with one of these characters.
  void refuse_properties(const YAML::Mark& mark) const {
    const char first = at(mark);
    if (first == '&' || first == '*') refuse(mark, "anchors and aliases are not supported");
    if (first == '!') refuse(mark, "tags are not supported");
  }

  bool expects_key() const {
    return !levels_.empty() && levels_.back().node.kind == YamlNode::Kind::kMap &&
           !levels_.back().key;
  }

  // yaml-cpp reports `null`, `~` and an absent value alike; the mark of an absent value is the next
  // token.
  bool is_written_null(const YAML::Mark& mark) const {
    const std::string_view rest = text_.substr(std::min<std::size_t>(mark.pos, text_.size()));
    return rest.starts_with("~") || rest.starts_with("null") || rest.starts_with("Null") ||
           rest.starts_with("NULL");
  }

  [[noreturn]] void refuse_absent(const YAML::Mark& mark) const {
    if (levels_.empty()) refuse(mark, "the document is empty");
    if (const std::optional<YamlNode>& key = levels_.back().key) {
      throw InputError(key->place, "'" + shown(key->text) + "' has no value");
    }
    refuse(mark, "empty list item");
  }

  // Whether the quote that opens at `mark` is closed in the text: yaml-cpp accepts the end of the
  // file in its place when a line feed comes before it.
  bool is_closed(const YAML::Mark& mark) const {
    const char quote = at(mark);
    for (std::size_t i = static_cast<std::size_t>(mark.pos) + 1; i < text_.size(); ++i) {
      if (text_[i] == '\\' && quote == '"') {
        ++i;
      } else if (text_[i] == quote) {
        const bool doubled = quote == '\'' && text_.substr(i + 1, 1) == "'";
        if (!doubled) return true;
        ++i;
      }
    }
    return false;
  }

  void open(const YAML::Mark& mark, YamlNode::Kind kind) {
    refuse_properties(mark);
    if (expects_key()) refuse(mark, kNoKey);
    if (levels_.size() >= kMaxYamlDepth) {
      refuse(mark, "nested deeper than " + std::to_string(kMaxYamlDepth) + " levels");
    }
    Level level;
    level.node.kind = kind;
    level.node.place = places_.of(mark);
    levels_.push_back(std::move(level));
  }

  void close() {
    YamlNode node = std::move(levels_.back().node);
    levels_.pop_back();
    add(std::move(node));
  }

  void add(YamlNode node) {
    if (levels_.empty()) {
      root_ = std::move(node);
      return;
    }
    Level& level = levels_.back();
    if (level.node.kind == YamlNode::Kind::kList) {
      level.node.items.push_back(std::move(node));
    } else if (!level.key) {
      add_key(level, std::move(node));
    } else {
      level.node.entries.push_back({std::move(*level.key), std::move(node)});
      level.key.reset();
    }
  }

  static void add_key(Level& level, YamlNode key) {
    const auto [first, is_new] = level.line_of_key.emplace(key.text, key.place.line);
    if (!is_new) {
      const std::string where =
          first->second > 0 ? " (first on line " + std::to_string(first->second) + ")" : "";
      throw InputError(key.place, "duplicate key '" + shown(key.text) + "'" + where);
    }
    level.key = std::move(key);
  }

  const Places& places_;
  std::string_view text_;
  YamlNode root_;
  bool has_document_ = false;
  std::vector<Level> levels_;
};

// yaml-cpp's messages name its grammar; these name what the writer can do.
std::string plain_words(const std::string& message) {
  static const std::map<std::string_view, std::string_view> kWords = {
      {YAML::ErrorMsg::UNKNOWN_ANCHOR, "anchors and aliases are not supported"},
      {YAML::ErrorMsg::EOF_IN_SCALAR, "the quote is not closed"},
      {YAML::ErrorMsg::END_OF_SEQ_FLOW, "expected ',' or ']' in a list"},
      {YAML::ErrorMsg::END_OF_MAP_FLOW, "expected ',' or '}' in a map"},
      {YAML::ErrorMsg::END_OF_MAP, "expected 'key: value' here (is the indentation right?)"},
      {YAML::ErrorMsg::END_OF_SEQ, "expected '- item' here (is the indentation right?)"},
      {YAML::ErrorMsg::MAP_VALUE, "unexpected ':' (text that contains ': ' needs quotes)"},
      {YAML::ErrorMsg::FLOW_END, "unexpected closing bracket"},
      {YAML::ErrorMsg::BLOCK_ENTRY, "unexpected '-'"},
      {YAML::ErrorMsg::UNKNOWN_TOKEN,
       "unexpected character (text that starts with it needs quotes)"},
  };
  const auto found = kWords.find(message);
  return found != kWords.end() ? std::string(found->second) : "YAML syntax: " + message;
}

YamlNode parse(const Places& places, const std::string& text) {
  TreeBuilder builder(places, text);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    const Place place = error.mark.is_null() ? places.end() : places.of(error.mark);
    throw InputError(place, plain_words(error.msg));
  }
  if (!builder.has_document()) {
    throw InputError(places.of(YAML::Mark::null_mark()), "the document is empty");
  }
  return builder.take_root();
}

}  // namespace

YamlNode parse_yaml(const std::string& file, std::string_view text) {
  check_yaml_text(file, text);
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return parse(Places(file, text), std::string(text));
}

YamlNode parse_yaml_value(const Place& place, std::string_view text) {
  try {
    check_yaml_text(place.file, text);
  } catch (const InputError& error) {
    throw InputError(place, error.message());
  }
  return parse(Places(place), std::string(text));
}

}  // namespace dcp
