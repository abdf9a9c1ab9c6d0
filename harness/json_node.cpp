#include "harness/json_node.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.hpp"
#include "core/input_file.hpp"
#include "core/spelling.hpp"
#include "harness/json_names.hpp"

namespace dcp {

namespace {

using Json = nlohmann::json;

bool holds_integer(const Json& json, std::int64_t min, std::int64_t max) {
  if (json.is_number_unsigned()) {
    const auto value = json.get<std::uint64_t>();
    return max >= 0 && value <= static_cast<std::uint64_t>(max) &&
           (min <= 0 || value >= static_cast<std::uint64_t>(min));
  }
  return json.is_number_integer() && json.get<std::int64_t>() >= min &&
         json.get<std::int64_t>() <= max;
}

std::string range_text(std::int64_t min, std::int64_t max) {
  return "an integer in " + std::to_string(min) + " .. " + std::to_string(max);
}

bool is_number(const Json& json) {
  return json.is_number() || json.is_null() || json == "inf" || json == "-inf";
}

double number_of(const Json& json) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (json.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (json.is_string()) return json == "inf" ? kInfinity : -kInfinity;
  return json.get<double>();
}

// What the parser says, without its own name, without the place, which the error has already, and
// without the text that it read last, which may be long, or no text at all.
std::string reason_of(const Json::exception& error) {
  std::string_view what = error.what();
  what.remove_prefix(std::min(what.find("] ") + 2, what.size()));
  const std::size_t column = what.find(", column ");
  if (column != std::string_view::npos) what.remove_prefix(what.find(": ", column) + 2);
  return "not JSON: " + std::string(what.substr(0, what.find("; last read")));
}

Place place_of(const std::string& path, std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, byte > 0 ? byte - 1 : 0);
  const auto line = std::count(before.begin(), before.end(), '\n');
  const std::size_t line_begin = before.rfind('\n') + 1;  // 0 where there is none
  return {.file = path,
          .line = static_cast<int>(line) + 1,
          .column = static_cast<int>(before.size() - line_begin) + 1};
}

// Where the parser gives up: its exception for a number that no double holds does not say.
class EndOfSense : public nlohmann::json_sax<Json> {
 public:
  std::size_t byte() const { return byte_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    byte_ = position;
    return false;
  }

 private:
  std::size_t byte_ = 0;
};

}  // namespace

void JsonNode::refuse(std::string_view why) const {
  if (place_.empty()) throw InputError({.file = *file_, .line = 1, .column = 1}, why);
  throw InputError({.file = *file_}, (place_.to_string() + ": ").append(why));
}

void JsonNode::refuse_found(std::string_view expected) const {
  const std::string found = json_->is_number() ? json_->dump() : std::string(json_->type_name());
  refuse(std::string(expected) + " expected, " + found + " found");
}

JsonNode JsonNode::at(std::string_view field) const {
  if (!json_->is_object()) refuse_found("an object");
  const auto found = json_->find(field);
  if (found == json_->end()) refuse("the field '" + std::string(field) + "' is missing");
  return {*found, *file_, place_ / std::string(field)};
}

std::optional<JsonNode> JsonNode::find(std::string_view field) const {
  if (!json_->is_object()) refuse_found("an object");
  const auto found = json_->find(field);
  if (found == json_->end() || found->is_null()) return std::nullopt;
  return JsonNode(*found, *file_, place_ / std::string(field));
}

void JsonNode::refuse_misspelt(std::span<const std::string_view> known) const {
  if (!json_->is_object()) refuse_found("an object");
  for (const auto& [field, value] : json_->items()) {
    if (std::find(known.begin(), known.end(), field) != known.end()) continue;
    const std::string near = did_you_mean(field, known);
    if (!near.empty()) refuse("unknown field '" + field + "'" + near);
  }
}

void JsonNode::refuse_unknown(std::span<const std::string_view> known) const {
  if (!json_->is_object()) refuse_found("an object");
  for (const auto& [field, value] : json_->items()) {
    if (std::find(known.begin(), known.end(), field) != known.end()) continue;
    refuse("unknown field '" + field + "'" + did_you_mean(field, known));
  }
}

void JsonNode::require_array(std::size_t count, std::string_view what) const {
  const std::string expected = std::to_string(count) + " " + std::string(what);
  if (!json_->is_array()) refuse_found("an array of " + expected);
  if (json_->size() != count) {
    refuse(expected + " expected, " + std::to_string(json_->size()) + " found");
  }
}

std::vector<JsonNode> JsonNode::items() const {
  if (!json_->is_array()) refuse_found("an array");
  std::vector<JsonNode> items;
  for (std::size_t i = 0; i < json_->size(); ++i) items.push_back(child(i));
  return items;
}

std::vector<JsonNode> JsonNode::items(std::size_t count, std::string_view what) const {
  require_array(count, what);
  return items();
}

std::string JsonNode::text() const {
  if (!json_->is_string()) refuse_found("a string");
  auto text = json_->get<std::string>();
  const auto is_control = [](unsigned char c) { return std::iscntrl(c) != 0; };
  if (std::any_of(text.begin(), text.end(), is_control)) refuse("control characters in a name");
  return text;
}

std::int64_t JsonNode::integer(std::int64_t min, std::int64_t max) const {
  if (!holds_integer(*json_, min, max)) refuse_found(range_text(min, max));
  return json_->get<std::int64_t>();
}

std::vector<std::byte> JsonNode::bits(std::int64_t count, DType dtype) const {
  require_array(static_cast<std::size_t>(count), "integers");
  const std::size_t width = size_bytes(dtype);
  const std::int64_t max = (std::int64_t{1} << (8 * width)) - 1;
  std::vector<std::byte> bytes(json_->size() * width);
  for (std::size_t i = 0; i < json_->size(); ++i) {
    const Json& element = (*json_)[i];
    if (!holds_integer(element, 0, max)) child(i).refuse_found(range_text(0, max));
    const auto word = element.get<std::uint32_t>();
    std::memcpy(bytes.data() + i * width, &word, width);  // little-endian: the low bytes come first
  }
  return bytes;
}

std::vector<double> JsonNode::numbers(std::int64_t count) const {
  require_array(static_cast<std::size_t>(count), "numbers");
  std::vector<double> values;
  values.reserve(json_->size());
  for (std::size_t i = 0; i < json_->size(); ++i) {
    const Json& element = (*json_)[i];
    if (!is_number(element)) child(i).refuse_found("a number, \"inf\", \"-inf\" or null");
    values.push_back(number_of(element));
  }
  return values;
}

nlohmann::json read_json_file(const std::string& path, std::size_t max_size_bytes) {
  const std::string text = read_input_file(path, max_size_bytes);
  if (text.size() > max_size_bytes) {
    throw InputError({.file = path},
                     "longer than " + std::to_string(max_size_bytes >> 20) + " MiB");
  }
  return parse_json_text(path, text);
}

nlohmann::json parse_json_text(const std::string& path, std::string_view text) {
  JsonNames names(path);
  const auto watch = [&](int, Json::parse_event_t event, const Json& parsed) {
    names.watch(event, parsed);
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::parse_error& refused) {
    throw InputError(place_of(path, text, refused.byte), reason_of(refused));
  } catch (const Json::exception& refused) {  // a number that no double holds
    EndOfSense end;
    Json::sax_parse(text, &end);
    throw InputError(place_of(path, text, end.byte()), reason_of(refused));
  }
}

}  // namespace dcp
