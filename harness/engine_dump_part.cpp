#include "harness/engine_dump_part.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "core/error.hpp"
#include "core/spelling.hpp"
#include "core/yaml_text.hpp"
#include "harness/dump_layers.hpp"

namespace dcp {

namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 30;
constexpr std::int64_t kMaxWorldSize = 64;
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 20;
constexpr std::int64_t kMaxHeads = 1024;
constexpr std::int64_t kMaxHeadDim = 576;
constexpr std::int64_t kMaxLength = 0x7FFFFFFF;  // the device's counts are 32-bit

constexpr auto kTensors = std::to_array<std::string_view>(
    {"partial_out", "partial_lse", "seq_lens", "query_start_loc", "out", "lse"});
constexpr auto kMetadata =
    std::to_array<std::string_view>({"lse_base", "strategy", "combined_by", "attention_split",
                                     "interleave", "world_size", "source"});
constexpr auto kStrategies = std::to_array<std::string_view>({"ag_rs", "ag_ar", "a2a", "direct"});

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t dim : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(dim);
  return text + "]";
}

std::optional<DType> float_dtype(StoredDType dtype) {
  for (const DType candidate : {DType::kFp16, DType::kBf16, DType::kFp32}) {
    if (stored_dtype(candidate) == dtype) return candidate;
  }
  return std::nullopt;
}

class PartReader {
 public:
  PartReader(const std::string& path, TensorFile file, bool one_rank)
      : file_(std::move(file)), one_rank_(one_rank) {
    part_.path = path;
  }

  EngineDumpPart read() {
    refuse_misspelt();
    read_metadata();
    read_partial_out();
    read_partial_lse();
    read_batch();
    if (!part_.context_only) read_results();
    return std::move(part_);
  }

 private:
  [[noreturn]] void refuse(const StoredTensor& tensor, const std::string& why) const {
    part_.refuse("tensor '" + tensor.name + "': " + why);
  }

  void refuse_misspelt() const {
    const auto check = [&](const std::string& what, const std::string& name, auto& known) {
      if (std::find(known.begin(), known.end(), name) != known.end()) return;
      const std::string near = did_you_mean(name, known);
      if (!near.empty()) part_.refuse("unknown " + what + " '" + shown(name) + "'" + near);
    };
    for (const StoredTensor& tensor : file_.tensors) check("tensor", tensor.name, kTensors);
    for (const auto& [key, value] : file_.metadata) check("key of '__metadata__'", key, kMetadata);
  }

  const std::string* metadata(const std::string& key) const {
    const auto found = file_.metadata.find(key);
    return found == file_.metadata.end() ? nullptr : &found->second;
  }

  std::optional<std::int64_t> count_of(const std::string& key, std::int64_t max) const {
    const std::string* text = metadata(key);
    if (text == nullptr) return std::nullopt;
    std::int64_t value = 0;
    const char* end = text->data() + text->size();
    const auto [stop, error] = std::from_chars(text->data(), end, value);
    if (error != std::errc() || stop != end || value < 1 || value > max) {
      part_.refuse("'__metadata__': '" + key + "' must be an integer in 1 .. " +
                   std::to_string(max) + ", '" + shown(*text) + "' found");
    }
    return value;
  }

  void read_metadata() {
    const std::string* base = metadata("lse_base");
    if (base == nullptr)
      part_.refuse("'__metadata__': 'lse_base' is missing; it is \"e\" or \"2\"");
    if (*base != "e" && *base != "2") {
      part_.refuse("'__metadata__': 'lse_base' must be \"e\" or \"2\", '" + shown(*base) +
                   "' found");
    }
    part_.base = *base == "2" ? LseBase::kTwo : LseBase::kE;
    part_.interleave = count_of("interleave", kMaxLength);
    part_.world_size = count_of("world_size", kMaxWorldSize);
    if (const std::string* source = metadata("source")) part_.source = *source;
    if (const std::string* split = metadata("attention_split")) {
      if (*split != "none" && *split != "context_then_new") {
        part_.refuse("'__metadata__': 'attention_split' must be none or context_then_new, '" +
                     shown(*split) + "' found");
      }
      part_.context_only = *split == "context_then_new";
    }
    read_strategy("strategy");
    read_strategy("combined_by");  // where it is not the one that was asked for
  }

  void read_strategy(const std::string& key) {
    const std::string* strategy = metadata(key);
    if (strategy == nullptr) return;
    if (std::find(kStrategies.begin(), kStrategies.end(), *strategy) == kStrategies.end()) {
      part_.refuse("'__metadata__': '" + key + "' must be ag_rs, ag_ar, a2a or direct, '" +
                   shown(*strategy) + "' found");
    }
    part_.strategy = *strategy;
  }

  const StoredTensor& at(std::string_view name) const {
    const StoredTensor* tensor = file_.find(name);
    if (tensor == nullptr) {
      part_.refuse("the tensor '" + std::string(name) + "' is missing" + hint_of_name());
    }
    return *tensor;
  }

  // Of what `run --dump` writes beside the files of ranks, by whose names they are known.
  std::string hint_of_name() const {
    const std::filesystem::path stem = std::filesystem::path(part_.path).stem();
    if (stem.extension() != ".inputs" && stem.extension() != ".reference") return "";
    return ": it is in the files of the step's ranks, " + stem.stem().string() +
           ".rank-<r>.safetensors";
  }

  void require_shape(const StoredTensor& tensor, const std::vector<std::int64_t>& shape) const {
    if (tensor.shape != shape) {
      refuse(tensor,
             "shape " + shape_text(shape) + " expected, " + shape_text(tensor.shape) + " found");
    }
  }

  std::vector<std::int64_t> ranked(std::vector<std::int64_t> shape) const {
    if (!one_rank_) shape.insert(shape.begin(), num_ranks());
    return shape;
  }

  std::int64_t num_ranks() const { return static_cast<std::int64_t>(part_.ranks.size()); }

  void read_partial_out() {
    const StoredTensor& tensor = at("partial_out");
    const auto dtype = float_dtype(tensor.dtype);
    if (!dtype) {
      refuse(tensor, "F16, BF16 or F32 expected, " + std::string(name(tensor.dtype)) + " found");
    }
    part_.dtype = *dtype;
    const std::string form =
        one_rank_ ? "[T, H, D] (one rank's, as the file's name says)" : "[N, T, H, D]";
    if (tensor.shape.size() != (one_rank_ ? 3u : 4u)) {
      refuse(tensor, "shape " + form + " expected, " + shape_text(tensor.shape) + " found");
    }
    const std::size_t skip = one_rank_ ? 0 : 1;
    const auto dim = [&](std::size_t index, char letter, std::int64_t max, std::int64_t min = 1) {
      const std::int64_t value = tensor.shape[index];
      if (value < min || value > max) {
        refuse(tensor, std::string(1, letter) + " in " + std::to_string(min) + " .. " +
                           std::to_string(max) + " expected, " + std::to_string(value) + " found");
      }
      return value;
    };
    part_.ranks.resize(one_rank_ ? 1 : static_cast<std::size_t>(dim(0, 'N', kMaxWorldSize)));
    part_.num_tokens = dim(skip, 'T', kMaxTokens, one_rank_ ? 0 : 1);
    part_.num_heads = static_cast<int>(dim(skip + 1, 'H', kMaxHeads));
    part_.head_dim = static_cast<int>(dim(skip + 2, 'D', kMaxHeadDim));
    if (part_.head_dim % 8 != 0) {
      refuse(tensor, "D must be a multiple of 8, " + std::to_string(part_.head_dim) + " found");
    }
    const std::size_t size = tensor.bytes.size() / part_.ranks.size();
    auto from = tensor.bytes.begin();
    for (RankPartials& rank : part_.ranks) {
      rank.out.assign(from, from + static_cast<std::ptrdiff_t>(size));
      from += static_cast<std::ptrdiff_t>(size);
    }
  }

  // Widened: fp32 holds every value of the 16-bit types.
  std::vector<float> floats_of(const StoredTensor& tensor) const {
    const auto dtype = float_dtype(tensor.dtype);
    if (!dtype) {
      refuse(tensor, "F16, BF16 or F32 expected, " + std::string(name(tensor.dtype)) + " found");
    }
    if (*dtype == DType::kFp32) return values_of<float>(tensor);
    std::vector<float> values(tensor.bytes.size() / size_bytes(*dtype));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = load_element(tensor.bytes.data(), *dtype, i);
    }
    return values;
  }

  void read_partial_lse() {
    const StoredTensor& tensor = at("partial_lse");
    require_shape(tensor, ranked({part_.num_tokens, part_.num_heads}));
    const std::vector<float> values = floats_of(tensor);
    const std::size_t size = values.size() / part_.ranks.size();
    for (std::size_t rank = 0; rank < part_.ranks.size(); ++rank) {
      std::vector<std::byte>& lse = part_.ranks[rank].lse;
      lse.resize(size * sizeof(float));
      std::memcpy(lse.data(), values.data() + rank * size, lse.size());
    }
  }

  std::vector<std::int64_t> integers_of(const StoredTensor& tensor) const {
    if (tensor.dtype == StoredDType::kI64) return values_of<std::int64_t>(tensor);
    if (tensor.dtype != StoredDType::kI32) {
      refuse(tensor, "I32 or I64 expected, " + std::string(name(tensor.dtype)) + " found");
    }
    const auto values = values_of<std::int32_t>(tensor);
    return {values.begin(), values.end()};
  }

  void require_in(const StoredTensor& tensor, std::size_t index, std::int64_t value,
                  std::int64_t low, std::int64_t high) const {
    if (value >= low && value <= high) return;
    refuse(tensor, "element " + std::to_string(index) + " must be in " + std::to_string(low) +
                       " .. " + std::to_string(high) + ", " + std::to_string(value) + " found");
  }

  void read_batch() {
    const StoredTensor* boundaries = file_.find("query_start_loc");
    const StoredTensor* lengths = file_.find("seq_lens");
    if ((boundaries == nullptr) != (lengths == nullptr)) {
      part_.refuse(
          std::string("the tensor '") + (boundaries == nullptr ? "query_start_loc" : "seq_lens") +
          "' is missing beside '" + (boundaries == nullptr ? "seq_lens" : "query_start_loc") + "'");
    }
    if (boundaries == nullptr) return;
    if (boundaries->shape.size() != 1 || boundaries->shape[0] < 1) {
      refuse(*boundaries, "shape [R + 1] expected, " + shape_text(boundaries->shape) + " found");
    }
    const auto rows = integers_of(*boundaries);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      require_in(*boundaries, i, rows[i], i == 0 ? 0 : rows[i - 1], i == 0 ? 0 : part_.num_tokens);
    }
    part_.query_start_loc.emplace(rows.begin(), rows.end());
    read_seq_lens(*lengths, rows.size() - 1);
  }

  void read_seq_lens(const StoredTensor& tensor, std::size_t num_requests) {
    require_shape(tensor, ranked({static_cast<std::int64_t>(num_requests)}));
    const auto lengths = integers_of(tensor);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      require_in(tensor, i, lengths[i], 0, kMaxLength);
      part_.ranks[i / num_requests].seq_lens.push_back(static_cast<std::int32_t>(lengths[i]));
    }
  }

  void read_results() {
    if (const StoredTensor* out = file_.find("out")) {
      if (out->dtype != stored_dtype(part_.dtype)) {
        refuse(*out, "the dtype of 'partial_out', " + std::string(name(stored_dtype(part_.dtype))) +
                         ", expected, " + std::string(name(out->dtype)) + " found");
      }
      const bool has_heads = one_rank_ && out->shape.size() == 3;
      part_.num_out_heads = has_heads ? heads_of(*out) : part_.num_heads;
      require_shape(*out, {part_.num_tokens, part_.num_out_heads, part_.head_dim});
      part_.out = out->bytes;
    }
    if (const StoredTensor* lse = file_.find("lse")) {
      if (lse->dtype != StoredDType::kF32) {
        refuse(*lse, "F32 expected, " + std::string(name(lse->dtype)) + " found");
      }
      if (part_.num_out_heads == 0) {
        const bool has_heads = one_rank_ && lse->shape.size() == 2;
        part_.num_out_heads = has_heads ? heads_of(*lse) : part_.num_heads;
      }
      require_shape(*lse, {part_.num_tokens, part_.num_out_heads});
      part_.lse = values_of<float>(*lse);
    }
  }

  // Of a rank's result: at most those of the group.
  int heads_of(const StoredTensor& tensor) const {
    if (tensor.shape[1] < 1 || tensor.shape[1] > part_.num_heads) {
      refuse(tensor, "heads in 1 .. " + std::to_string(part_.num_heads) + " expected, " +
                         std::to_string(tensor.shape[1]) + " found");
    }
    return static_cast<int>(tensor.shape[1]);
  }

  TensorFile file_;
  bool one_rank_;
  EngineDumpPart part_;
};

}  // namespace

void EngineDumpPart::refuse(std::string_view why) const { throw InputError({.file = path}, why); }

std::vector<EngineDumpPart> read_engine_dump_parts(const std::string& path, bool one_rank) {
  TensorFile file = read_safetensors(path, kMaxFileBytes);
  std::vector<TensorFile> layers;
  if (one_rank) {
    layers = split_layers(path, std::move(file));
  } else {
    layers.push_back(std::move(file));
  }
  std::vector<EngineDumpPart> parts;
  for (TensorFile& layer : layers) {
    parts.push_back(engine_dump_part(path, std::move(layer), one_rank));
  }
  return parts;
}

EngineDumpPart engine_dump_part(const std::string& path, TensorFile file, bool one_rank) {
  return PartReader(path, std::move(file), one_rank).read();
}

}  // namespace dcp
