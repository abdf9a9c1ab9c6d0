// The engine's buffers by name: poisoned by a step, or read back after it.
#include <algorithm>

#include "core/error.hpp"
#include "core/poison.hpp"
#include "engine/engine_state.hpp"

namespace dcp {

namespace {

// How many equal rows a buffer holds per layer, for steps that name one row of it.
struct RowCount {
  std::int64_t layers;
  std::int64_t rows;  // per layer
};

RowCount row_count(std::string_view name, const StepShape& shape, const Capacity& capacity,
                   int block_size) {
  if (name == "kv_cache") return {shape.layers, capacity.num_blocks * block_size};
  if (name == "new_kv") return {shape.layers, capacity.max_num_tokens};
  if (name == "query_start_loc") return {1, capacity.max_num_tokens + 1};
  if (name == "send" || name == "recv" || name == "lse_recv") {
    return {1, shape.world_size * shape.num_tokens};
  }
  if (name == "lse_send") return {1, shape.num_tokens};
  const bool per_layer =
      name == "q_gathered" || name.starts_with("partial_") || name == "out" || name == "lse";
  return per_layer ? RowCount{shape.layers, shape.num_tokens}
                   : RowCount{1, capacity.max_num_tokens};
}

// Contiguous [num_tokens, num_heads, dim] of what may be stored with padding.
std::vector<float> decode(Runtime& runtime, const ConstHeadRows& rows, std::size_t stored_elements,
                          std::int64_t num_tokens, int num_heads, int dim) {
  std::vector<std::byte> bytes(stored_elements * size_bytes(rows.dtype));
  runtime.read(bytes.data(), rows.data, bytes.size());
  std::vector<float> values(static_cast<std::size_t>(num_tokens) * num_heads * dim);
  dispatch_dtype(rows.dtype, [&]<class T>() {
    float* to = values.data();
    for (std::int64_t token = 0; token < num_tokens; ++token) {
      for (int head = 0; head < num_heads; ++head) {
        const T* from = reinterpret_cast<const T*>(bytes.data()) + rows.strides.offset(token, head);
        for (int i = 0; i < dim; ++i) *to++ = to_float(from[i]);
      }
    }
  });
  return values;
}

}  // namespace

void write_poison(Runtime& runtime, std::byte* data, std::size_t size_bytes) {
  std::vector<std::byte> bytes(size_bytes);
  poison(bytes.data(), bytes.size());
  runtime.write(data, bytes.data(), bytes.size());
}

// The one buffer of that name: a persistent one, or one of the graph that is named or the only one.
Buffer Engine::find_buffer(const BufferRef& ref, int rank, StepShape& shape) const {
  std::vector<std::pair<Buffer, StepShape>> found;
  const auto add = [&](const BufferSet& buffers, const StepShape& owner) {
    if (const Buffer* buffer = buffers.find(ref.buffer)) found.emplace_back(*buffer, owner);
  };
  const StepShape largest = plan_.shape(rank, capacity_.max_num_tokens);
  if (!ref.graph) {
    add(ranks_[rank]->inputs.buffers(), largest);
    add(ranks_[rank]->workspace, largest);
  }
  for (const auto& graph : graphs_) {
    const bool shared = ranks_[rank]->workspace.find(ref.buffer) != nullptr;
    const bool wanted = ref.graph ? *ref.graph == graph->name : !shared;
    if (wanted) add(graph->ranks[rank].buffers, graph->ranks[rank].shape);
  }
  if (found.size() != 1) {
    throw StepError("no_such_buffer", "'" + ref.buffer + "'" +
                                          (ref.graph ? " of graph " + *ref.graph : "") + " names " +
                                          std::to_string(found.size()) +
                                          " buffers of a rank, it must name one" +
                                          (found.empty() ? "" : ": say which graph's"));
  }
  shape = found.front().second;
  return found.front().first;
}

void Engine::poison(const BufferRef& ref) {
  world_.drain();
  each_rank([&](Rank& rank, RankState&) {
    if (ref.rank && *ref.rank != rank.index) return;
    StepShape shape{};
    const Buffer buffer = find_buffer(ref, rank.index, shape);
    if (!ref.row) return write_poison(rank.runtime, buffer.data, buffer.size_bytes);

    const RowCount count = row_count(ref.buffer, shape, capacity_, scenario_.kv.block_size);
    if (*ref.row < 0 || *ref.row >= count.rows) {
      throw StepError("no_such_buffer", "'" + ref.buffer + "' has rows 0 to " +
                                            std::to_string(count.rows - 1) + ", not " +
                                            std::to_string(*ref.row));
    }
    const std::size_t layer_bytes = buffer.size_bytes / static_cast<std::size_t>(count.layers);
    const std::size_t row_bytes = layer_bytes / static_cast<std::size_t>(count.rows);
    for (std::int64_t layer = 0; layer < count.layers; ++layer) {
      write_poison(rank.runtime, buffer.data + layer * layer_bytes + *ref.row * row_bytes,
                   row_bytes);
    }
  });
}

LayerValues Engine::read_layer(const StepRun& run, int layer) const {
  LayerValues values;
  const bool all_heads = strategy_.keeps_all_heads();
  world_.each_rank([&](Rank& rank) {
    const RankStep& step = run.step->ranks[rank.index];
    const StepShape& s = step.shape;
    const auto rows = static_cast<std::size_t>(s.num_tokens);
    if (rank.index == 0) {
      const auto query = plan_.query().gathered(s, step.buffers, ranks_[0]->inputs.view(), layer);
      values.query = decode(rank.runtime, query, rows * s.num_heads * s.qk_head_dim, s.num_tokens,
                            s.num_heads, s.qk_head_dim);
    }
    RankLayerValues mine;
    mine.num_out_heads = all_heads ? s.num_heads : s.heads_per_rank;
    mine.first_out_head = all_heads ? 0 : s.rank * s.heads_per_rank;
    const std::size_t stored = rows * static_cast<std::size_t>(s.padded_num_heads);
    mine.partial_out = decode(rank.runtime, partial_out(s, step.buffers, layer),
                              stored * s.head_dim, s.num_tokens, s.num_heads, s.head_dim);
    mine.partial_lse = decode(rank.runtime, partial_lse(s, step.buffers, layer), stored,
                              s.num_tokens, s.num_heads, 1);
    const Combined combined = combined_rows(s, step.buffers, all_heads, layer);
    const std::size_t out_rows = rows * static_cast<std::size_t>(mine.num_out_heads);
    mine.out = decode(rank.runtime, combined.out, out_rows * s.head_dim, s.num_tokens,
                      mine.num_out_heads, s.head_dim);
    if (combined.lse != nullptr) {
      mine.lse.resize(out_rows);
      rank.runtime.read(mine.lse.data(), combined.lse, out_rows * sizeof(float));
    }
    values.ranks.push_back(std::move(mine));
  });
  return values;
}

}  // namespace dcp
