// The engine's results bit for bit, for dumps: nothing is decoded on the way.
#include <algorithm>
#include <cstring>

#include "engine/engine_state.hpp"

namespace dcp {

namespace {

// Contiguous [num_tokens, num_heads, dim] of rows that lie among `stored_elements`; where dim is
// absent, [num_tokens, num_heads].
TensorBits compact(Runtime& runtime, const ConstHeadRows& rows, std::size_t stored_elements,
                   std::vector<std::int64_t> shape) {
  const std::size_t element_bytes = size_bytes(rows.dtype);
  std::vector<std::byte> stored(stored_elements * element_bytes);
  runtime.read(stored.data(), rows.data, stored.size());
  const std::size_t row_bytes =
      element_bytes * (shape.size() == 3 ? static_cast<std::size_t>(shape[2]) : 1);
  TensorBits tensor{.dtype = rows.dtype, .shape = std::move(shape), .bytes = {}};
  tensor.bytes.reserve(static_cast<std::size_t>(tensor.shape[0] * tensor.shape[1]) * row_bytes);
  for (std::int64_t token = 0; token < tensor.shape[0]; ++token) {
    for (int head = 0; head < tensor.shape[1]; ++head) {
      const auto offset = static_cast<std::size_t>(rows.strides.offset(token, head));
      const auto from = stored.begin() + static_cast<std::ptrdiff_t>(offset * element_bytes);
      tensor.bytes.insert(tensor.bytes.end(), from, from + static_cast<std::ptrdiff_t>(row_bytes));
    }
  }
  return tensor;
}

RankLayerBits rank_bits(Runtime& runtime, const RankStep& step, bool all_heads, int layer) {
  const StepShape& s = step.shape;
  const auto rows = static_cast<std::size_t>(s.num_tokens);
  const std::size_t stored = rows * static_cast<std::size_t>(s.padded_num_heads);
  const int out_heads = all_heads ? s.num_heads : s.heads_per_rank;
  const std::size_t out_rows = rows * static_cast<std::size_t>(out_heads);
  const Combined combined = combined_rows(s, step.buffers, all_heads, layer);
  RankLayerBits bits;
  bits.partial_out = compact(runtime, partial_out(s, step.buffers, layer), stored * s.head_dim,
                             {s.num_tokens, s.num_heads, s.head_dim});
  bits.partial_lse =
      compact(runtime, partial_lse(s, step.buffers, layer), stored, {s.num_tokens, s.num_heads});
  bits.out =
      compact(runtime, combined.out, out_rows * s.head_dim, {s.num_tokens, out_heads, s.head_dim});
  if (combined.lse != nullptr) {
    const ConstHeadRows lse{
        .data = combined.lse, .strides = token_major(out_heads, 1), .dtype = DType::kFp32};
    bits.lse = compact(runtime, lse, out_rows, {s.num_tokens, out_heads});
  }
  return bits;
}

}  // namespace

LayerBits Engine::read_layer_bits(const StepRun& run, int layer) const {
  LayerBits bits;
  world_.each_rank([&](Rank& rank) {
    const RankStep& step = run.step->ranks[rank.index];
    const StepShape& s = step.shape;
    if (rank.index == 0) {
      const auto query = plan_.query().gathered(s, step.buffers, ranks_[0]->inputs.view(), layer);
      const std::size_t elements = static_cast<std::size_t>(s.num_tokens) *
                                   static_cast<std::size_t>(s.num_heads) *
                                   static_cast<std::size_t>(s.qk_head_dim);
      bits.query =
          compact(rank.runtime, query, elements, {s.num_tokens, s.num_heads, s.qk_head_dim});
    }
    bits.ranks.push_back(rank_bits(rank.runtime, step, strategy_.keeps_all_heads(), layer));
  });
  return bits;
}

std::optional<TensorBits> Engine::read_workspace(const StepRun& run, int rank,
                                                 std::string_view name) const {
  std::optional<TensorBits> tensor;
  const RankStep& step = run.step->ranks[static_cast<std::size_t>(rank)];
  const Buffer* buffer = step.buffers.find(name);
  const BufferPlan plan = plan_.buffers(step.shape);
  const auto spec = std::find_if(plan.specs().begin(), plan.specs().end(),
                                 [&](const BufferSpec& each) { return each.name == name; });
  if (buffer == nullptr || spec == plan.specs().end() || spec->shape.empty()) return tensor;
  world_.each_rank([&](Rank& each) {
    if (each.index != rank) return;
    // The buffer may be larger: a fixed workspace is sized for the largest step.
    tensor = {.dtype = spec->dtype, .shape = spec->shape, .bytes = {}};
    tensor->bytes.resize(spec->size_bytes);
    each.runtime.read(tensor->bytes.data(), buffer->data, tensor->bytes.size());
  });
  return tensor;
}

}  // namespace dcp
