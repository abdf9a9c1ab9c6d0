#include "strategies/direct_gathers.hpp"

#include <string>

#include "core/error.hpp"

namespace dcp {

namespace {

constexpr std::int64_t kVectorBytes = 16;

void require_aligned(const std::string& row, std::int64_t row_bytes) {
  if (row_bytes % kVectorBytes == 0) return;
  throw StepError("alignment", "the direct gather moves rows in pieces of " +
                                   std::to_string(kVectorBytes) + " bytes, and " + row + " has " +
                                   std::to_string(row_bytes) + " bytes");
}

std::int64_t head_bytes(const StepShape& shape) {
  return shape.qk_head_dim * static_cast<std::int64_t>(size_bytes(shape.dtype));
}

std::int64_t kv_row_bytes(const StepShape& shape) {
  return shape.kv_gather.dim * static_cast<std::int64_t>(size_bytes(shape.kv_gather.dtype));
}

}  // namespace

bool has_aligned_queries(const StepShape& shape) {
  return shape.heads_per_rank * head_bytes(shape) % kVectorBytes == 0 &&
         shape.padded_num_heads * head_bytes(shape) % kVectorBytes == 0;
}

bool has_aligned_kv(const StepShape& shape) { return kv_row_bytes(shape) % kVectorBytes == 0; }

void require_query_alignment(const StepShape& shape) {
  require_aligned("a rank's query row", shape.heads_per_rank * head_bytes(shape));
  require_aligned("a query row of padded heads", shape.padded_num_heads * head_bytes(shape));
}

void require_kv_alignment(const StepShape& shape) {
  require_aligned("a KV row", kv_row_bytes(shape));
}

void plan_direct_query_gather(const StepShape& shape, BufferPlan& plan) {
  plan.add("q_gathered", shape.dtype,
           {shape.max_exchange_tokens, shape.padded_num_heads, shape.qk_head_dim},
           Lifetime::kSymmetric);
  plan_exchange(shape, kQueryGatherNames, plan);
}

void enqueue_direct_query_gather(const Lane& lane, const StepShape& shape, const BufferSet& buffers,
                                 const void* query) {
  const Exchange<QueryGatherOps> exchange(lane, shape, buffers, kQueryGatherNames);
  const std::int64_t row_bytes = shape.heads_per_rank * head_bytes(shape);
  exchange.begin();
  lane.enqueue<DirectQueryStore>({.rows = query,
                                  .target = buffers.peers("q_gathered"),
                                  .state = exchange.state(),
                                  .stores = exchange.stores(),
                                  .num_rows = shape.num_tokens,
                                  .row_bytes = row_bytes,
                                  .row_stride = shape.num_heads * head_bytes(shape),
                                  .first_byte = shape.rank * row_bytes,
                                  .slot_bytes = 0,
                                  .world_size = shape.world_size,
                                  .rank = shape.rank,
                                  .num_slots = 1});
  exchange.publish_and_wait();
}

void plan_direct_kv_gather(const StepShape& shape, BufferPlan& plan) {
  const KvGatherSpec& gather = shape.kv_gather;
  plan.add("kv_slots", gather.dtype,
           {shape.direct.slots, shape.world_size, gather.tokens / shape.world_size, gather.dim},
           Lifetime::kSymmetric);
  plan_exchange(shape, kKvGatherNames, plan);
}

void enqueue_direct_kv_gather(const Lane& lane, const StepShape& shape, const BufferSet& buffers,
                              const void* chunk, void* gathered) {
  const Exchange<KvGatherOps> exchange(lane, shape, buffers, kKvGatherNames);
  const std::int64_t num_rows = shape.kv_gather.tokens / shape.world_size;
  const std::int64_t row_bytes = kv_row_bytes(shape);
  exchange.begin();
  lane.enqueue<DirectKvStore>({.rows = chunk,
                               .target = buffers.peers("kv_slots"),
                               .state = exchange.state(),
                               .stores = exchange.stores(),
                               .num_rows = num_rows,
                               .row_bytes = row_bytes,
                               .row_stride = row_bytes,
                               .first_byte = shape.rank * num_rows * row_bytes,
                               .slot_bytes = shape.kv_gather.tokens * row_bytes,
                               .world_size = shape.world_size,
                               .rank = shape.rank,
                               .num_slots = exchange.num_slots()});
  exchange.publish_and_wait();
  lane.enqueue<DirectKvRead>({.slots = buffers.at("kv_slots"),
                              .gathered = gathered,
                              .state = exchange.state(),
                              .num_rows = num_rows,
                              .max_num_rows = num_rows,
                              .row_bytes = row_bytes,
                              .world_size = shape.world_size,
                              .num_slots = exchange.num_slots()});
}

}  // namespace dcp
