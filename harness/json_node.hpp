// A place in a JSON document that must have a certain form. What has another is an InputError with
// the JSON pointer (RFC 6901) of the place: "x.json: error: /cases/3/num_heads: ...".
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"

namespace dcp {

class JsonNode {
 public:
  JsonNode(const nlohmann::json& json, const std::string& file) : json_(&json), file_(&file) {}

  [[noreturn]] void refuse(std::string_view why) const;

  bool is_null() const { return json_->is_null(); }
  bool is_object() const { return json_->is_object(); }

  JsonNode at(std::string_view field) const;                   // it must be there
  std::optional<JsonNode> find(std::string_view field) const;  // absent or null: nullopt

  // Refuses fields that look like a misspelt one of `known`; others are nobody's business.
  void refuse_misspelt(std::span<const std::string_view> known) const;

  // Refuses every field that is none of `known`.
  void refuse_unknown(std::span<const std::string_view> known) const;

  std::vector<JsonNode> items() const;                                          // of an array
  std::vector<JsonNode> items(std::size_t count, std::string_view what) const;  // of so many

  std::string text() const;  // one line for people: no control characters
  std::int64_t integer(std::int64_t min, std::int64_t max) const;

  // An array of `count` numbers that are the bits of `dtype` elements (16 or 32 bits).
  std::vector<std::byte> bits(std::int64_t count, DType dtype) const;

  // An array of `count` numbers; "inf", "-inf" and null (NaN) stand for what JSON cannot write.
  std::vector<double> numbers(std::int64_t count) const;

 private:
  JsonNode(const nlohmann::json& json, const std::string& file, nlohmann::json::json_pointer place)
      : json_(&json), file_(&file), place_(std::move(place)) {}

  [[noreturn]] void refuse_found(std::string_view expected) const;
  JsonNode child(std::size_t index) const { return {(*json_)[index], *file_, place_ / index}; }
  void require_array(std::size_t count, std::string_view what) const;

  const nlohmann::json* json_;
  const std::string* file_;
  nlohmann::json::json_pointer place_;
};

// Parses the file. Throws InputError where it cannot be read, is larger than `max_size_bytes`, or
// is not JSON: then with line and column; and where an object has a field twice.
nlohmann::json read_json_file(const std::string& path, std::size_t max_size_bytes);

// The same for text that is in memory; `path` is only for messages.
nlohmann::json parse_json_text(const std::string& path, std::string_view text);

}  // namespace dcp
