#include "engine/rank_inputs.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "core/poison.hpp"
#include "kernels/empty_row_mode.hpp"

namespace dcp {

namespace {

EmptyRowMode empty_row_mode(verb::StubMode mode) {
  switch (mode) {
    case verb::StubMode::kExact:
      return EmptyRowMode::kExact;
    case verb::StubMode::kPoisonEmpty:
      return EmptyRowMode::kPoisonEmpty;
    case verb::StubMode::kPlusInf:
      return EmptyRowMode::kPlusInf;
    case verb::StubMode::kNanPad:
      return EmptyRowMode::kNanPad;
    case verb::StubMode::kUntouched:
      return EmptyRowMode::kUntouched;
  }
  return EmptyRowMode::kExact;
}

void store_row(std::vector<std::byte>& tensor, DType dtype, std::size_t row,
               const std::vector<float>& values) {
  dispatch_any_dtype(dtype, [&]<class T>() {
    T* to = reinterpret_cast<T*>(tensor.data()) + row * values.size();
    for (std::size_t i = 0; i < values.size(); ++i) to[i] = from_float<T>(values[i]);
  });
}

std::vector<std::byte> poisoned(std::size_t size_bytes) {
  std::vector<std::byte> bytes(size_bytes);
  poison(bytes.data(), bytes.size());
  return bytes;
}

// Of all ubatches, as the buffers lie.
std::size_t metadata_bytes(const Scenario& scenario, const Capacity& capacity) {
  std::size_t of_ubatch = 0;
  for (const InputSpec& spec : metadata_specs(metadata_capacity(scenario, capacity))) {
    of_ubatch += aligned_part(spec.size_bytes());
  }
  return static_cast<std::size_t>(scenario.graph.ubatches) * of_ubatch;
}

}  // namespace

RankInputs::RankInputs(Runtime& runtime, const Scenario& scenario, const StepPlan& plan,
                       const Capacity& capacity, int rank)
    : runtime_(runtime),
      scenario_(scenario),
      shape_(plan.shape(rank, capacity.max_num_tokens)),
      num_input_heads_(plan.query().num_input_heads(shape_)),
      shard_{rank, scenario.world_size, scenario.interleave},
      capacity_(capacity),
      staging_(runtime, metadata_bytes(scenario, capacity)) {
  view_.num_blocks = capacity.num_blocks;
  view_.block_size = scenario.kv.block_size;
  view_.softmax_scale = static_cast<float>(scenario.model.softmax_scale);
  view_.zero_query = scenario.data.kind == DataKind::kMean;
  for (const InputSpec& spec : data_specs(scenario, plan, capacity)) {
    buffers_.add(spec.name, runtime_.allocate(spec.name, spec.size_bytes()));
  }
  bind();
  allocate_metadata();
  Upload upload(runtime_, std::nullopt);
  set_stub(upload, verb::StubMode::kExact);
}

// Of all ubatches together, so that one copy fills them.
void RankInputs::allocate_metadata() {
  const MetadataCapacity capacity = metadata_capacity(scenario_, capacity_);
  const auto num_ubatches = static_cast<std::size_t>(scenario_.graph.ubatches);
  std::vector<BufferRequest> parts;
  for (std::size_t u = 0; u < num_ubatches; ++u) {
    for (const InputSpec& spec : metadata_specs(capacity)) {
      parts.push_back({spec.name, spec.size_bytes()});
    }
  }
  const std::vector<Buffer> buffers = runtime_.allocate_together(parts);
  const std::size_t num_arrays = parts.size() / num_ubatches;
  for (std::size_t u = 0; u < num_ubatches; ++u) {
    BufferSet mine;
    for (std::size_t i = u * num_arrays; i < (u + 1) * num_arrays; ++i) {
      mine.add(parts[i].name, buffers[i]);
    }
    metadata_.emplace_back(capacity, std::move(mine));
  }
}

void RankInputs::rebind(const std::string& name, const Buffer& buffer) {
  buffers_.add(name, buffer);
  bind();
}

void RankInputs::keep(const std::string& name, bool tail_only) {
  if (metadata_.front().buffers().find(name) == nullptr) {
    std::string known;
    for (const auto& [each, buffer] : metadata_.front().buffers().all()) known += " " + each;
    throw std::invalid_argument("no metadata buffer is named '" + name + "'; there are:" + known);
  }
  (tail_only ? kept_.tail : kept_.whole) = name;
}

void RankInputs::bind() {
  view_.query = buffers_.at<std::byte>("q");
  view_.new_kv = buffers_.at<std::byte>("new_kv");
  view_.all_new_kv = view_.new_kv;
  view_.kv_cache = buffers_.at<std::byte>("kv_cache");
  view_.empty_row_mode = buffers_.at<std::int32_t>("empty_row_mode");
  if (scenario_.kv_gather) view_.kv_chunk = buffers_.at<std::byte>("kv_chunk");
  if (scenario_.data.kind != DataKind::kGiven) return;
  view_.given_out = buffers_.at<std::byte>("given_out");
  view_.given_lse = buffers_.at<std::byte>("given_lse");
}

StepInputs RankInputs::view(int ubatch, std::int64_t first_row, const std::byte* query) const {
  StepInputs view = view_;
  if (query != nullptr) view.query = query;
  metadata_[static_cast<std::size_t>(ubatch)].set_view(view);
  const auto row = static_cast<std::size_t>(first_row);
  const std::size_t element_bytes = size_bytes(shape_.dtype);
  view.query += row * num_input_heads_ * shape_.qk_head_dim * element_bytes;
  view.new_kv += row * shape_.kv_row_dim * element_bytes;
  if (view.kv_chunk != nullptr) {
    view.kv_chunk += static_cast<std::size_t>(ubatch * shape_.layers) * chunk_bytes();
  }
  if (view.given_out != nullptr) {
    const std::size_t heads = row * static_cast<std::size_t>(shape_.padded_num_heads);
    view.given_out += heads * shape_.head_dim * size_bytes(shape_.dtype);
    view.given_lse += heads * size_bytes(shape_.lse.dtype);
  }
  return view;
}

void RankInputs::stage_metadata(const Upload& upload, const BatchLayout& layout,
                                const std::vector<Ubatch>& ubatches) {
  RankBatch batch = make_rank_batch(layout, shard_, view_.block_size, view_.num_blocks);
  if (forced_slot_) std::fill(batch.slot_mapping.begin(), batch.slot_mapping.end(), *forced_slot_);
  for (auto& pages : batch.block_table) {
    if (forced_block_) std::fill(pages.begin(), pages.end(), *forced_block_);
  }
  forced_slot_.reset();
  forced_block_.reset();
  staging_.begin(upload);
  const std::size_t last = ubatches.size() - 1;
  for (std::size_t u = 0; u < last; ++u) {
    metadata_[u].stage(staging_, ubatch_of(batch, ubatches[u]), kept_);
  }
  metadata_[last].stage(staging_, ubatch_of(std::move(batch), ubatches[last]), kept_);
  kept_ = {};
}

void RankInputs::load_data(Upload& upload, const InputData& data, const BatchLayout& layout,
                           const std::vector<Ubatch>& ubatches) {
  load_cache(upload, data, layout,
             make_rank_batch(layout, shard_, view_.block_size, view_.num_blocks));
  load_new_tokens(upload, data, layout);
  if (scenario_.data.kind == DataKind::kGiven) load_given(upload, layout);
  if (scenario_.kv_gather) load_chunks(upload, data, layout, ubatches);
}

std::vector<MetadataValues> RankInputs::metadata_values(const BatchLayout& layout,
                                                        const std::vector<Ubatch>& ubatches,
                                                        std::size_t ubatch) const {
  RankBatch batch = make_rank_batch(layout, shard_, view_.block_size, view_.num_blocks);
  return metadata_.at(ubatch).values(ubatch_of(std::move(batch), ubatches[ubatch]));
}

// Page by page: pages of the batch before are poisoned, so that a key that is read by mistake
// shows; pages that neither batch uses stay as they are.
void RankInputs::load_cache(Upload& upload, const InputData& data, const BatchLayout& layout,
                            const RankBatch& batch) {
  std::vector<float> kv(static_cast<std::size_t>(shape_.kv_row_dim));
  const std::size_t page_bytes =
      static_cast<std::size_t>(view_.block_size) * kv.size() * size_bytes(shape_.kv_dtype);
  for (int layer = 0; layer < shape_.layers; ++layer) {
    std::byte* cache =
        view_.kv_cache + static_cast<std::size_t>(layer * view_.num_blocks) * page_bytes;
    for (const std::int32_t page : used_pages_) {
      upload.poison(cache + page * page_bytes, page_bytes);
    }
    for (std::int64_t r = 0; r < layout.num_requests(); ++r) {
      const auto& pages = batch.block_table[r];
      auto rows = poisoned(pages.size() * page_bytes);
      const std::int64_t context =
          std::max<std::int64_t>(0, layout.seq_lens[r] - layout.query_len(r));
      for (const LocalKey& local : local_keys(layout, shard_, r, 0, context)) {
        data.kv_row(layer, static_cast<int>(r), local.token, shard_.rank, kv);
        store_row(rows, shape_.kv_dtype, static_cast<std::size_t>(local.index), kv);
      }
      for (std::size_t i = 0; i < pages.size(); ++i) {
        upload.write(cache + pages[i] * page_bytes, rows.data() + i * page_bytes, page_bytes);
      }
    }
  }
  used_pages_.clear();
  for (const auto& pages : batch.block_table) {
    used_pages_.insert(used_pages_.end(), pages.begin(), pages.end());
  }
}

void RankInputs::load_new_tokens(Upload& upload, const InputData& data, const BatchLayout& layout) {
  std::vector<float> head_query(static_cast<std::size_t>(shape_.qk_head_dim));
  std::vector<float> kv(static_cast<std::size_t>(shape_.kv_row_dim));
  const auto capacity = static_cast<std::size_t>(capacity_.max_num_tokens);
  const std::size_t element_bytes = size_bytes(shape_.dtype);
  auto query = poisoned(capacity * num_input_heads_ * head_query.size() * element_bytes);
  auto new_kv = poisoned(shape_.layers * capacity * kv.size() * element_bytes);
  const int first_head =
      num_input_heads_ == shape_.num_heads ? 0 : shape_.rank * shape_.heads_per_rank;
  for (std::int64_t r = 0; r < layout.num_requests(); ++r) {
    if (layout.seq_lens[r] == 0) continue;  // a padding request has no tokens
    for (std::int64_t j = 0; j < layout.query_len(r); ++j) {
      const auto row = static_cast<std::size_t>(layout.query_start_loc[r] + j);
      const std::int64_t token = layout.seq_lens[r] - layout.query_len(r) + j;
      const int owner = owner_of_token(layout, shard_, r, token);
      for (int layer = 0; layer < shape_.layers; ++layer) {
        data.kv_row(layer, static_cast<int>(r), token, owner, kv);
        store_row(new_kv, shape_.dtype, static_cast<std::size_t>(layer) * capacity + row, kv);
      }
      for (int head = 0; head < num_input_heads_; ++head) {
        data.query(static_cast<int>(r), token, first_head + head, head_query);
        store_row(query, shape_.dtype, row * num_input_heads_ + head, head_query);
      }
    }
  }
  upload.write(buffers_.at("q"), query.data(), query.size());
  upload.write(buffers_.at("new_kv"), new_kv.data(), new_kv.size());
}

void RankInputs::set_stub(Upload& upload, verb::StubMode mode) {
  const EmptyRowMode value = empty_row_mode(mode);
  upload.write(buffers_.at("empty_row_mode"), &value, sizeof(value));
}

}  // namespace dcp
