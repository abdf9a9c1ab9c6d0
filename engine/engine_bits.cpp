// The engine's results bit for bit, for dumps: nothing is decoded on the way.
#include <algorithm>
#include <cstring>

#include "engine/engine_state.hpp"
#include "engine/shared_values.hpp"

namespace dcp {

namespace {

// Appends the rows [num_tokens, num_heads, ...] of one ubatch, whose form after the tokens is that
// of `tensor`. The rows lie among `stored_elements`, which may hold padding between them.
void append(Runtime& runtime, const ConstHeadRows& rows, std::size_t stored_elements,
            std::int64_t num_tokens, TensorBits& tensor) {
  const std::size_t element_bytes = size_bytes(rows.dtype);
  std::vector<std::byte> stored(stored_elements * element_bytes);
  runtime.read(stored.data(), rows.data, stored.size());
  const std::size_t row_bytes =
      element_bytes * (tensor.shape.size() == 3 ? static_cast<std::size_t>(tensor.shape[2]) : 1);
  for (std::int64_t token = 0; token < num_tokens; ++token) {
    for (int head = 0; head < tensor.shape[1]; ++head) {
      const auto offset = static_cast<std::size_t>(rows.strides.offset(token, head));
      const auto from = stored.begin() + static_cast<std::ptrdiff_t>(offset * element_bytes);
      tensor.bytes.insert(tensor.bytes.end(), from, from + static_cast<std::ptrdiff_t>(row_bytes));
    }
  }
  tensor.shape[0] += num_tokens;
}

void append(Runtime& runtime, const UbatchStep& step, bool all_heads, int layer,
            RankLayerBits& bits) {
  const StepShape& s = step.shape;
  const auto rows = static_cast<std::size_t>(s.num_tokens);
  const std::size_t stored = rows * static_cast<std::size_t>(s.padded_num_heads);
  append(runtime, partial_out(s, step.buffers, layer), stored * s.head_dim, s.num_tokens,
         bits.partial_out);
  append(runtime, partial_lse(s, step.buffers, layer), stored, s.num_tokens, bits.partial_lse);
  const auto out_heads = static_cast<int>(bits.out.shape[1]);
  const std::size_t out_rows = rows * static_cast<std::size_t>(out_heads);
  const Combined combined = combined_rows(s, step.buffers, all_heads, layer);
  append(runtime, combined.out, out_rows * s.head_dim, s.num_tokens, bits.out);
  if (!bits.lse) return;
  const ConstHeadRows lse{
      .data = combined.lse, .strides = token_major(out_heads, 1), .dtype = DType::kFp32};
  append(runtime, lse, out_rows, s.num_tokens, *bits.lse);
}

// Tensors of the rank's forms, without rows.
RankLayerBits empty_bits(const StepShape& s, bool all_heads) {
  const int out_heads = all_heads ? s.num_heads : s.heads_per_rank;
  RankLayerBits bits;
  bits.partial_out = {s.dtype, {0, s.num_heads, s.head_dim}, {}};
  bits.partial_lse = {s.lse.dtype, {0, s.num_heads}, {}};
  bits.out = {s.dtype, {0, out_heads, s.head_dim}, {}};
  if (s.return_lse) bits.lse = {DType::kFp32, {0, out_heads}, {}};
  return bits;
}

}  // namespace

LayerBits Engine::read_layer_bits(const StepRun& run, int layer) const {
  LayerBits bits;
  bits.ranks.resize(ranks_.size());
  std::vector<TensorBits> queries(ranks_.size());
  const bool all_heads = strategy_.keeps_all_heads();
  world_.each_rank([&](Rank& rank) {
    const RankStep& step = run.step->ranks[static_cast<std::size_t>(rank.index)];
    RankLayerBits& mine = bits.ranks[rank.index];
    mine = empty_bits(step.shape, all_heads);
    for (const UbatchStep& ubatch : step.ubatches) {
      append(rank.runtime, ubatch, all_heads, layer, mine);
    }
    if (reads_query_of(run, rank.index)) queries[rank.index] = read_query_part(rank, run, layer);
  });
  bits.query = join_query(run, std::move(queries));
  share(world_, bits);
  return bits;
}

// Whether the ranks' own parts are all that is left of the queries when the step is done.
bool Engine::has_query_parts(const StepRun& run) const {
  const RankStep& step = run.step->ranks[static_cast<std::size_t>(run.ranks.front())];
  return std::any_of(step.ubatches.begin(), step.ubatches.end(), [&](const UbatchStep& ubatch) {
    return plan_.query().reuses_buffer(ubatch.shape);
  });
}

bool Engine::reads_query_of(const StepRun& run, int rank) const {
  if (!std::binary_search(run.ranks.begin(), run.ranks.end(), rank)) return false;
  return rank == run.ranks.front() || has_query_parts(run);
}

TensorBits Engine::read_query_part(Rank& rank, const StepRun& run, int layer) const {
  const RankStep& step = run.step->ranks[static_cast<std::size_t>(rank.index)];
  const bool is_part = has_query_parts(run);
  const int num_heads = is_part ? step.shape.heads_per_rank : step.shape.num_heads;
  TensorBits query{
      .dtype = step.shape.dtype, .shape = {0, num_heads, step.shape.qk_head_dim}, .bytes = {}};
  for (std::size_t u = 0; u < step.ubatches.size(); ++u) {
    const UbatchStep& ubatch = step.ubatches[u];
    const StepShape& s = ubatch.shape;
    const StepInputs inputs = inputs_of(run, rank.index, u);
    const std::size_t stored = static_cast<std::size_t>(s.num_tokens) * num_heads * s.qk_head_dim;
    append(rank.runtime,
           is_part ? plan_.query().own(s, ubatch.buffers, inputs, layer)
                   : plan_.query().gathered(s, ubatch.buffers, inputs, layer),
           stored, s.num_tokens, query);
  }
  return query;
}

// Heads of ranks that did not take part are 0.
TensorBits Engine::join_query(const StepRun& run, std::vector<TensorBits> parts) const {
  const auto front = static_cast<std::size_t>(run.ranks.front());
  if (!has_query_parts(run)) return std::move(parts[front]);
  TensorBits query = parts[front];
  query.shape[1] *= static_cast<std::int64_t>(parts.size());
  query.bytes.assign(query.bytes.size() * parts.size(), std::byte{0});
  const auto rows = static_cast<std::size_t>(query.shape[0]);
  const std::size_t row_bytes = rows == 0 ? 0 : parts[front].bytes.size() / rows;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    if (parts[rank].bytes.empty()) continue;
    for (std::size_t row = 0; row < rows; ++row) {
      std::memcpy(query.bytes.data() + (row * parts.size() + rank) * row_bytes,
                  parts[rank].bytes.data() + row * row_bytes, row_bytes);
    }
  }
  return query;
}

std::vector<std::vector<std::byte>> Engine::read_gathered_kv(const StepRun& run, int layer) const {
  std::vector<std::vector<std::byte>> of_ranks(ranks_.size());
  world_.each_rank([&](Rank& rank) {
    if (!std::binary_search(run.ranks.begin(), run.ranks.end(), rank.index)) return;
    std::vector<std::byte>& mine = of_ranks[rank.index];
    for (const UbatchStep& ubatch : run.step->ranks[rank.index].ubatches) {
      const Buffer& gathered = *ubatch.buffers.find("kv_gathered");
      const std::size_t layer_bytes =
          gathered.size_bytes / static_cast<std::size_t>(ubatch.shape.layers);
      mine.resize(mine.size() + layer_bytes);
      rank.runtime.read(mine.data() + mine.size() - layer_bytes,
                        gathered.data + static_cast<std::size_t>(layer) * layer_bytes, layer_bytes);
    }
  });
  world_.share(of_ranks);
  return of_ranks;
}

std::optional<TensorBits> Engine::read_workspace(const WorkspaceRef& ref) const {
  const RankStep& step = ref.run.step->ranks.at(static_cast<std::size_t>(ref.rank));
  const UbatchStep& ubatch = step.ubatches.at(static_cast<std::size_t>(ref.ubatch));
  const Buffer* buffer = ubatch.buffers.find(ref.name);
  const BufferPlan plan = plan_.buffers(ubatch.shape);
  const auto spec = std::find_if(plan.specs().begin(), plan.specs().end(),
                                 [&](const BufferSpec& each) { return each.name == ref.name; });
  if (buffer == nullptr || spec == plan.specs().end() || spec->shape.empty() ||
      spec->lifetime != Lifetime::kWorkspace) {
    return std::nullopt;
  }
  TensorBits tensor{.dtype = spec->dtype, .shape = spec->shape, .bytes = {}};
  world_.each_rank([&](Rank& rank) {
    if (rank.index != ref.rank) return;
    // The buffer may be larger: a fixed workspace is sized for the largest step.
    tensor.bytes.resize(spec->size_bytes);
    rank.runtime.read(tensor.bytes.data(), buffer->data, tensor.bytes.size());
  });
  return tensor;
}

}  // namespace dcp
