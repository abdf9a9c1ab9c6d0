// The strict reader: whatever is accepted is exactly what the format says, so that no later code
// has to doubt an offset.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.hpp"
#include "core/input_file.hpp"
#include "core/safetensors.hpp"
#include "core/yaml_text.hpp"

namespace dcp {

namespace {

using Json = nlohmann::json;  // sorted: a lookup among many names is quick

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // as the format's own library
constexpr int kMaxDepth = 3;                            // header, one tensor, its shape

struct Span {
  std::uint64_t begin;
  std::uint64_t end;
};

class Reader {
 public:
  Reader(const std::string& path, std::string_view bytes) : path_(path), bytes_(bytes) {}

  TensorFile read() {
    const Json header = parse_header();
    TensorFile file;
    std::vector<Span> spans;
    for (const auto& [key, value] : header.items()) {
      if (key == "__metadata__") {
        file.metadata = metadata_of(value);
        continue;
      }
      file.tensors.push_back(tensor_of(key, value, spans.emplace_back()));
    }
    return with_bytes(std::move(file), spans);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const { throw InputError({.file = path_}, why); }

  [[noreturn]] void refuse(const std::string& tensor, const std::string& why) const {
    refuse("tensor '" + shown(tensor) + "': " + why);
  }

  Json parse_header() {
    if (bytes_.size() < 8) refuse("8 bytes with the length of the header expected");
    std::uint64_t length = 0;
    for (int i = 7; i >= 0; --i) {
      length = length << 8 | static_cast<unsigned char>(bytes_[static_cast<std::size_t>(i)]);
    }
    if (length > kMaxHeaderBytes) {
      refuse("a header of " + std::to_string(length) + " bytes; at most " +
             std::to_string(kMaxHeaderBytes) + " are allowed");
    }
    if (length > bytes_.size() - 8) {
      refuse("a header of " + std::to_string(length) + " bytes, but the file ends " +
             std::to_string(bytes_.size() - 8) + " bytes after its length");
    }
    const std::string_view text = bytes_.substr(8, length);
    data_ = bytes_.substr(8 + length);
    const std::size_t last = text.find_last_not_of(' ');
    if (!text.starts_with('{') || text[last] != '}') refuse("the header must be a JSON object");
    return parse_json(text);
  }

  // Refuses names that come twice, of which the parser would keep the last, and deep nesting.
  Json parse_json(std::string_view text) const {
    std::vector<std::set<std::string>> names;  // of each open object
    const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
      using Event = Json::parse_event_t;
      if ((event == Event::object_start || event == Event::array_start) && depth >= kMaxDepth) {
        refuse("the header is nested too deeply");
      }
      if (event == Event::object_start) names.emplace_back();
      if (event == Event::object_end) names.pop_back();
      if (event == Event::key && !names.back().insert(parsed.get<std::string>()).second) {
        refuse("the header names '" + shown(parsed.get<std::string>()) + "' twice");
      }
      return true;
    };
    try {
      return Json::parse(text, watch);
    } catch (const Json::exception&) {  // its text quotes the input, which may be long or no text
      refuse("the header is not JSON");
    }
  }

  std::map<std::string, std::string> metadata_of(const Json& json) const {
    if (!json.is_object()) refuse("'__metadata__' must be an object");
    std::map<std::string, std::string> metadata;
    for (const auto& [key, value] : json.items()) {
      if (!value.is_string()) refuse("'__metadata__': '" + shown(key) + "' must be a string");
      metadata[key] = value.get<std::string>();
    }
    return metadata;
  }

  StoredTensor tensor_of(const std::string& tensor_name, const Json& json, Span& span) const {
    if (!json.is_object()) refuse(tensor_name, "an object expected");
    for (const auto& [key, value] : json.items()) {
      if (key != "dtype" && key != "shape" && key != "data_offsets") {
        refuse(tensor_name, "unknown field '" + shown(key) + "'");
      }
    }
    if (json.size() != 3) refuse(tensor_name, "dtype, shape and data_offsets expected");
    StoredTensor tensor{.name = tensor_name,
                        .dtype = dtype_of(tensor_name, json["dtype"]),
                        .shape = {},
                        .bytes = {}};
    const auto offsets = counts_of(tensor_name, "data_offsets", json["data_offsets"]);
    if (offsets.size() != 2 || offsets[0] > offsets[1]) {
      refuse(tensor_name, "'data_offsets' must be a begin and an end that is not below it");
    }
    span = {offsets[0], offsets[1]};
    std::uint64_t size = size_bytes(tensor.dtype);
    for (const std::uint64_t dim : counts_of(tensor_name, "shape", json["shape"])) {
      tensor.shape.push_back(static_cast<std::int64_t>(dim));
      if (__builtin_mul_overflow(size, dim, &size)) refuse(tensor_name, "the shape is too large");
    }
    if (size != span.end - span.begin) {
      refuse(tensor_name, "dtype and shape take " + std::to_string(size) +
                              " bytes, the offsets hold " + std::to_string(span.end - span.begin));
    }
    return tensor;
  }

  StoredDType dtype_of(const std::string& tensor, const Json& json) const {
    constexpr StoredDType kAll[] = {StoredDType::kF64,  StoredDType::kF32, StoredDType::kF16,
                                    StoredDType::kBf16, StoredDType::kI64, StoredDType::kI32,
                                    StoredDType::kU8};
    if (!json.is_string()) refuse(tensor, "'dtype' must be a string");
    const auto text = json.get<std::string>();
    for (const StoredDType dtype : kAll) {
      if (name(dtype) == text) return dtype;
    }
    refuse(tensor, "unknown dtype '" + shown(text) + "'");
  }

  std::vector<std::uint64_t> counts_of(const std::string& tensor, const char* field,
                                       const Json& json) const {
    constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
    std::vector<std::uint64_t> counts;
    if (!json.is_array()) refuse(tensor, std::string("'") + field + "' must be a list");
    for (const Json& item : json) {
      if (!item.is_number_unsigned() || item.get<std::uint64_t>() > kMax) {
        refuse(tensor, std::string("'") + field + "' must hold integers in 0 .. 2^63-1");
      }
      counts.push_back(item.get<std::uint64_t>());
    }
    return counts;
  }

  // Copies the bytes, which must follow one another from the header to the end of the file.
  TensorFile with_bytes(TensorFile file, const std::vector<Span>& spans) const {
    std::vector<std::size_t> order(spans.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(spans[a].begin, spans[a].end) < std::pair(spans[b].begin, spans[b].end);
    });
    TensorFile ordered{.metadata = std::move(file.metadata), .tensors = {}};
    std::uint64_t expected = 0;
    for (const std::size_t i : order) {
      StoredTensor& tensor = file.tensors[i];
      const auto [begin, end] = spans[i];
      if (begin != expected) {
        refuse(tensor.name, "begins at byte " + std::to_string(begin) + " of the data, expected " +
                                std::to_string(expected) + ": no overlap and no gap");
      }
      if (end > data_.size()) {
        refuse(tensor.name, "ends at byte " + std::to_string(end) + ", the data has " +
                                std::to_string(data_.size()));
      }
      const auto* from = reinterpret_cast<const std::byte*>(data_.data());
      tensor.bytes.assign(from + begin, from + end);
      ordered.tensors.push_back(std::move(tensor));
      expected = end;
    }
    if (expected != data_.size()) {
      refuse(std::to_string(data_.size() - expected) + " bytes after the last tensor");
    }
    return ordered;
  }

  const std::string& path_;
  std::string_view bytes_;
  std::string_view data_;  // after the header
};

}  // namespace

TensorFile parse_safetensors(const std::string& path, std::string_view bytes) {
  return Reader(path, bytes).read();
}

TensorFile read_safetensors(const std::string& path, std::size_t max_size_bytes) {
  const std::string bytes = read_input_file(path, max_size_bytes);
  if (bytes.size() > max_size_bytes) {
    throw InputError({.file = path},
                     "longer than " + std::to_string(max_size_bytes >> 20) + " MiB");
  }
  return parse_safetensors(path, bytes);
}

}  // namespace dcp
