// The engine's buffers by name: poisoned by a step, or read back after it.
#include <algorithm>

#include "core/error.hpp"
#include "core/poison.hpp"
#include "engine/engine_state.hpp"
#include "engine/shared_values.hpp"
#include "kernels/direct_lines.hpp"

namespace dcp {

namespace {

// How many equal rows a buffer holds per layer, for steps that name one row of it.
struct RowCount {
  std::int64_t layers;
  std::int64_t rows;           // per layer
  std::int64_t row_bytes = 0;  // 0: the rows fill the buffer
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
  if (name.starts_with("split_")) return {1, shape.num_splits * shape.num_tokens};
  if (name == "payload" || name == "lse_slots") {
    return {1, shape.direct.slots * shape.world_size * capacity.max_exchange_tokens};
  }
  if (name == "lines") {
    return {1, shape.direct.slots * shape.world_size * kMaxLineTokens};
  }
  if (name == "kv_slots") return {1, shape.direct.slots * shape.kv_gather.tokens};
  if (name == "kv_gathered") return {shape.layers, shape.kv_gather.tokens};
  if (name.ends_with("signals")) return {1, shape.direct.slots * shape.world_size};
  if (name.ends_with("epoch")) return {1, 1};
  const bool per_layer = name == "q_gathered" || name.starts_with("partial_") || name == "out" ||
                         name == "lse" || name.starts_with("context_") || name == "new_out" ||
                         name == "new_lse";
  return per_layer ? RowCount{shape.layers, shape.num_tokens}
                   : RowCount{1, capacity.max_num_tokens};
}

// Of the buffer that query: direct gathers into: storage for padded heads lies behind the last row.
RowCount shared_query_rows(const StepShape& shape) {
  return {1, shape.max_exchange_tokens,
          shape.num_heads * shape.qk_head_dim * static_cast<std::int64_t>(size_bytes(shape.dtype))};
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

std::vector<float> decode(const TensorBits& tensor) {
  std::vector<float> values(tensor.bytes.size() / size_bytes(tensor.dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = load_element(tensor.bytes.data(), tensor.dtype, i);
  }
  return values;
}

// Also of a buffer that all ubatches share: what it is asked for there is not there.
void require_ubatch(const BufferRef& ref, const Scenario& scenario) {
  const int last = scenario.graph.ubatches - 1;
  if (!ref.ubatch || *ref.ubatch <= last) return;
  throw StepError("no_such_buffer", "'" + ref.buffer + "' of ubatch " +
                                        std::to_string(*ref.ubatch) + ": the last ubatch is " +
                                        std::to_string(last));
}

}  // namespace

// The one buffer of that name: a persistent one, or one of the graph and ubatch that are named or
// the only ones.
Engine::FoundBuffer Engine::find_buffer(const BufferRef& ref, Rank& own_rank) {
  const int rank = own_rank.index;
  require_ubatch(ref, scenario_);
  std::vector<FoundBuffer> found;
  RankState& state = *ranks_[rank];
  const Ledger& ledger = own_rank.runtime.ledger();
  const auto add = [&](const BufferSet& buffers, const StepShape& owner, bool is_part,
                       const std::function<void(const Buffer&)>& replace) {
    const Buffer* buffer = buffers.find(ref.buffer);
    if (buffer == nullptr) return;
    if (ref.generation &&
        ledger.at(buffer->id).generation != static_cast<std::uint32_t>(*ref.generation)) {
      return;
    }
    found.push_back({*buffer, owner, is_part, replace});
  };
  const StepShape largest = plan_.shape(rank, capacity_.max_num_tokens);
  if (!ref.graph) {
    add(state.inputs.buffers(), largest, false,
        [&](const Buffer& fresh) { state.inputs.rebind(ref.buffer, fresh); });
    if (const auto own = state.allocated.find(ref.buffer); own != state.allocated.end()) {
      BufferSet only;
      only.add(ref.buffer, own->second);
      add(only, largest, false, [own](const Buffer& fresh) { own->second = fresh; });
    }
  }
  for (int u = 0; u < scenario_.graph.ubatches && !ref.graph; ++u) {
    if (ref.ubatch && *ref.ubatch != u) continue;
    add(state.inputs.metadata(u), largest, false,
        [&state, &ref, u](const Buffer& fresh) { state.inputs.rebind(ref.buffer, fresh, u); });
    UbatchState& ubatch = state.ubatches[u];
    add(ubatch.symmetric, largest, false,
        [&](const Buffer& fresh) { ubatch.symmetric.add(ref.buffer, fresh); });
    BufferSet shared = ubatch.fixed;
    if (!ubatch.workspace.is_empty()) shared.add("workspace", ubatch.workspace.block());
    add(shared, largest, ref.buffer != "workspace",
        [&](const Buffer& fresh) { rebind_workspace(state, ubatch, ref.buffer, fresh); });
  }
  const bool shared = state.ubatches[0].fixed.find(ref.buffer) != nullptr ||
                      state.ubatches[0].symmetric.find(ref.buffer) != nullptr;
  for (const auto& graph : graphs_) {
    const bool wanted = ref.graph ? *ref.graph == graph->name : !shared;
    auto& ubatches = graph->ranks[rank].ubatches;
    for (std::size_t u = 0; u < ubatches.size() && wanted; ++u) {
      if (ref.ubatch && *ref.ubatch != static_cast<int>(u)) continue;
      UbatchStep& step = ubatches[u];
      const Buffer* buffer = step.buffers.find(ref.buffer);
      const bool is_owned = buffer != nullptr &&
                            std::any_of(step.owned.begin(), step.owned.end(), [&](const auto& own) {
                              return own.id == buffer->id && own.size_bytes == buffer->size_bytes;
                            });
      add(step.buffers, step.shape, !is_owned,
          [&](const Buffer& fresh) { step.buffers.add(ref.buffer, fresh); });
    }
  }
  if (found.size() != 1) {
    throw StepError("no_such_buffer", "'" + ref.buffer + "'" +
                                          (ref.graph ? " of graph " + *ref.graph : "") + " names " +
                                          std::to_string(found.size()) +
                                          " buffers of a rank, it must name one" +
                                          (found.empty() ? "" : ": say which graph's or ubatch's"));
  }
  return found.front();
}

void Engine::rebind_workspace(RankState& state, UbatchState& ubatch, const std::string& name,
                              const Buffer& fresh) {
  if (name != "workspace") {
    ubatch.fixed.add(name, fresh);
    return;
  }
  ubatch.workspace.replace(fresh);
  if (scenario_.workspace.policy != WorkspacePolicy::kFixed) return;
  const int rank =
      static_cast<int>(std::find_if(ranks_.begin(), ranks_.end(),
                                    [&](const auto& each) { return each.get() == &state; }) -
                       ranks_.begin());
  ubatch.fixed = carve_workspace(fresh, plan_.buffers(plan_.shape(rank, capacity_.max_num_tokens)));
  ubatch.fixed.add("workspace", fresh);
}

// The whole buffer, or the row that is named, of every layer.
std::vector<Engine::Mark> Engine::rows_of(const BufferRef& ref, Rank& own_rank) {
  const int rank = own_rank.index;
  const FoundBuffer found = find_buffer(ref, own_rank);
  const Buffer& buffer = found.buffer;
  if (!ref.row) return {{rank, buffer.data, buffer.size_bytes}};

  const bool is_block = ref.buffer == "workspace" || ranks_[rank]->allocated.count(ref.buffer) > 0;
  RowCount count = is_block
                       ? RowCount{1, 1}
                       : row_count(ref.buffer, found.shape, capacity_, scenario_.kv.block_size);
  const bool is_shared = ranks_[rank]->ubatches[0].symmetric.find(ref.buffer) != nullptr;
  if (ref.buffer == "q_gathered" && is_shared) count = shared_query_rows(found.shape);
  if (*ref.row < 0 || *ref.row >= count.rows) {
    throw StepError("no_such_buffer", "'" + ref.buffer + "' has rows 0 to " +
                                          std::to_string(count.rows - 1) + ", not " +
                                          std::to_string(*ref.row));
  }
  const std::size_t layer_bytes = buffer.size_bytes / static_cast<std::size_t>(count.layers);
  const auto row_bytes = static_cast<std::size_t>(
      count.row_bytes > 0 ? count.row_bytes : static_cast<std::int64_t>(layer_bytes) / count.rows);
  std::vector<Mark> rows;
  for (std::int64_t layer = 0; layer < count.layers; ++layer) {
    rows.push_back({rank, buffer.data + layer * layer_bytes + *ref.row * row_bytes, row_bytes});
  }
  return rows;
}

void Engine::read_ubatch(Rank& rank, const UbatchStep& step, int layer,
                         RankLayerValues& values) const {
  const StepShape& s = step.shape;
  const bool all_heads = strategy_.keeps_all_heads();
  const auto rows = static_cast<std::size_t>(s.num_tokens);
  const auto append = [](std::vector<float>& to, const std::vector<float>& part) {
    to.insert(to.end(), part.begin(), part.end());
  };
  const std::size_t stored = rows * static_cast<std::size_t>(s.padded_num_heads);
  append(values.partial_out, decode(rank.runtime, partial_out(s, step.buffers, layer),
                                    stored * s.head_dim, s.num_tokens, s.num_heads, s.head_dim));
  append(values.partial_lse, decode(rank.runtime, partial_lse(s, step.buffers, layer), stored,
                                    s.num_tokens, s.num_heads, 1));
  const std::size_t out_rows = rows * static_cast<std::size_t>(values.num_out_heads);
  const auto append_rows = [&](const Combined& from, std::vector<float>& to,
                               std::vector<float>& to_lse) {
    append(to, decode(rank.runtime, from.out, out_rows * s.head_dim, s.num_tokens,
                      values.num_out_heads, s.head_dim));
    if (from.lse == nullptr) return;
    std::vector<float> lse(out_rows);
    rank.runtime.read(lse.data(), from.lse, out_rows * sizeof(float));
    append(to_lse, lse);
  };
  append_rows(combined_rows(s, step.buffers, all_heads, layer), values.out, values.lse);
  if (step.buffers.find("context_out") == nullptr) return;
  const AttentionStates merged = states(s, step.buffers, all_heads, layer);
  append_rows(merged.context, values.context_out, values.context_lse);
  append_rows(merged.new_tokens, values.new_out, values.new_lse);
}

StepInputs Engine::inputs_of(const StepRun& run, int rank, std::size_t ubatch) const {
  const std::byte* query = run.queries.empty() ? nullptr : run.queries[rank].data;
  return ranks_[rank]->inputs.view(static_cast<int>(ubatch), run.step->ubatches[ubatch].first_row,
                                   query);
}

LayerValues Engine::read_layer(const StepRun& run, int layer) const {
  LayerValues values;
  values.ranks.resize(ranks_.size());
  std::vector<TensorBits> queries(ranks_.size());
  world_.each_rank([&](Rank& rank) {
    if (!std::binary_search(run.ranks.begin(), run.ranks.end(), rank.index)) return;
    const RankStep& step = run.step->ranks[rank.index];
    const bool all_heads = strategy_.keeps_all_heads();
    RankLayerValues& mine = values.ranks[rank.index];
    mine.num_out_heads = all_heads ? step.shape.num_heads : step.shape.heads_per_rank;
    mine.first_out_head = all_heads ? 0 : rank.index * step.shape.heads_per_rank;
    for (const UbatchStep& ubatch : step.ubatches) read_ubatch(rank, ubatch, layer, mine);
    if (reads_query_of(run, rank.index)) queries[rank.index] = read_query_part(rank, run, layer);
  });
  values.query = decode(join_query(run, std::move(queries)));
  share(world_, values);
  return values;
}

}  // namespace dcp
