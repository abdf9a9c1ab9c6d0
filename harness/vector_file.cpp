#include "harness/vector_file.hpp"

#include <array>
#include <cstring>

#include "core/yaml_text.hpp"
#include "harness/json_node.hpp"

namespace dcp {

namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;
constexpr std::int64_t kMaxWorldSize = 64;
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 20;
constexpr std::int64_t kMaxHeads = 1024;
constexpr std::int64_t kMaxHeadDim = 576;
constexpr std::int64_t kMaxLength = 0x7FFFFFFF;  // the device's counts are 32-bit

constexpr auto kFields = std::to_array<std::string_view>(
    {"name", "world_size", "num_tokens", "num_heads", "head_dim", "dtype", "lse_base", "seq_lens",
     "query_start_loc", "partial_out_bits", "partial_lse_bits", "seed_send_bits",
     "seed_a2a_out_bits", "seed_a2a_lse_bits", "seed_ag_lse_bits", "seed_corrected_out_bits",
     "truth_out", "truth_lse"});

DType read_dtype(const JsonNode& node) {
  const std::string text = node.text();
  for (const DType dtype : {DType::kFp16, DType::kBf16, DType::kFp32}) {
    if (name(dtype) == text) return dtype;
  }
  node.refuse("fp16, bf16 or fp32 expected, '" + shown(text) + "' found");
}

LseBase read_base(const JsonNode& node) {
  const std::string text = node.text();
  if (text != "e" && text != "2")
    node.refuse("\"e\" or \"2\" expected, '" + shown(text) + "' found");
  return text == "2" ? LseBase::kTwo : LseBase::kE;
}

int read_multiple(const JsonNode& node, std::int64_t factor, std::int64_t max,
                  const std::string& factor_name) {
  const std::int64_t value = node.integer(1, max);
  if (value % factor != 0) {
    node.refuse("a multiple of " + factor_name + " expected, " + std::to_string(value) + " found");
  }
  return static_cast<int>(value);
}

std::vector<std::int32_t> read_boundaries(const JsonNode& node, std::int64_t num_tokens) {
  std::vector<std::int32_t> boundaries;
  for (const JsonNode& item : node.items()) {
    const std::int64_t low = boundaries.empty() ? 0 : boundaries.back();
    const std::int64_t high = boundaries.empty() ? 0 : num_tokens;
    boundaries.push_back(static_cast<std::int32_t>(item.integer(low, high)));
  }
  if (boundaries.empty()) node.refuse("a first boundary, 0, expected, none found");
  return boundaries;
}

// Both or neither of query_start_loc and seq_lens.
void read_batch(const JsonNode& node, PartialsCase& partials) {
  const JsonNode boundaries = node.at("query_start_loc");
  const JsonNode seq_lens = node.at("seq_lens");
  if (boundaries.is_null() != seq_lens.is_null()) {
    (boundaries.is_null() ? boundaries : seq_lens)
        .refuse("null, although " +
                std::string(boundaries.is_null() ? "seq_lens" : "query_start_loc") + " is given");
  }
  if (boundaries.is_null()) return;
  partials.query_start_loc = read_boundaries(boundaries, partials.num_tokens);
  const auto ranks = seq_lens.items(partials.ranks.size(), "lists (one per rank)");
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto lengths = ranks[rank].items(partials.query_start_loc->size() - 1, "integers");
    for (const JsonNode& length : lengths) {
      partials.ranks[rank].seq_lens.push_back(
          static_cast<std::int32_t>(length.integer(0, kMaxLength)));
    }
  }
}

std::vector<std::vector<std::byte>> read_rank_bits(const JsonNode& node, int world_size,
                                                   std::int64_t count, DType dtype) {
  std::vector<std::vector<std::byte>> bits;
  for (const JsonNode& rank :
       node.items(static_cast<std::size_t>(world_size), "lists (one per rank)")) {
    bits.push_back(rank.bits(count, dtype));
  }
  return bits;
}

std::vector<float> floats_of(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

PartialsCase read_partials(const JsonNode& node) {
  PartialsCase partials;
  partials.world_size = static_cast<int>(node.at("world_size").integer(1, kMaxWorldSize));
  partials.num_tokens = node.at("num_tokens").integer(1, kMaxTokens);
  partials.num_heads = read_multiple(node.at("num_heads"), partials.world_size, kMaxHeads,
                                     "world_size " + std::to_string(partials.world_size));
  partials.head_dim = read_multiple(node.at("head_dim"), 8, kMaxHeadDim, "8");
  partials.dtype = read_dtype(node.at("dtype"));
  partials.lse = {.base = read_base(node.at("lse_base")), .dtype = DType::kFp32};
  partials.out_strides = token_major(partials.num_heads, partials.head_dim);
  partials.lse_strides = token_major(partials.num_heads, 1);
  partials.ranks.resize(static_cast<std::size_t>(partials.world_size));
  read_batch(node, partials);

  const std::int64_t rows = partials.num_tokens * partials.num_heads;
  auto outs = read_rank_bits(node.at("partial_out_bits"), partials.world_size,
                             rows * partials.head_dim, partials.dtype);
  auto lses = read_rank_bits(node.at("partial_lse_bits"), partials.world_size, rows, DType::kFp32);
  for (std::size_t rank = 0; rank < partials.ranks.size(); ++rank) {
    partials.ranks[rank].out = std::move(outs[rank]);
    partials.ranks[rank].lse = std::move(lses[rank]);
  }
  return partials;
}

SeedResults read_seed(const JsonNode& node, const PartialsCase& partials) {
  const int n = partials.world_size;
  const std::int64_t rows = partials.num_tokens * partials.num_heads;
  const std::int64_t own_rows = rows / n;
  const std::int64_t lanes = partials.head_dim + lse_lanes(partials.dtype);
  SeedResults seed;
  if (const auto send = node.find("seed_send_bits")) {
    seed.send = read_rank_bits(*send, n, rows * lanes, partials.dtype);
  }
  if (const auto out = node.find("seed_a2a_out_bits")) {
    seed.a2a_out = read_rank_bits(*out, n, own_rows * partials.head_dim, partials.dtype);
  }
  if (const auto lse = node.find("seed_a2a_lse_bits")) {
    for (const auto& bits : read_rank_bits(*lse, n, own_rows, DType::kFp32)) {
      seed.a2a_lse.push_back(floats_of(bits));
    }
  }
  if (const auto lse = node.find("seed_ag_lse_bits")) {
    seed.ag_lse = floats_of(lse->bits(rows, DType::kFp32));
  }
  if (const auto out = node.find("seed_corrected_out_bits")) {
    seed.corrected_out = read_rank_bits(*out, n, rows * partials.head_dim, partials.dtype);
  }
  return seed;
}

VectorCase read_case(const JsonNode& node) {
  node.refuse_misspelt(kFields);
  VectorCase test;
  test.name = node.at("name").text();
  if (test.name.empty()) node.at("name").refuse("a name expected, none found");
  test.partials = read_partials(node);
  const std::int64_t rows = test.partials.num_tokens * test.partials.num_heads;
  test.truth_out = node.at("truth_out").numbers(rows * test.partials.head_dim);
  test.truth_lse = node.at("truth_lse").numbers(rows);
  test.seed = read_seed(node, test.partials);
  return test;
}

VectorFile vectors_of(const nlohmann::json& json, const std::string& path) {
  const JsonNode root(json, path);
  VectorFile file;
  const JsonNode cases = root.at("cases");
  if (const auto source = root.find("source")) file.source = source->text();
  for (const JsonNode& node : cases.items()) file.cases.push_back(read_case(node));
  if (file.cases.empty()) cases.refuse("at least one case expected, none found");
  return file;
}

}  // namespace

VectorFile read_vector_file(const std::string& path) {
  return vectors_of(read_json_file(path, kMaxFileBytes), path);
}

VectorFile parse_vector_file(const std::string& path, std::string_view text) {
  return vectors_of(parse_json_text(path, text), path);
}

}  // namespace dcp
