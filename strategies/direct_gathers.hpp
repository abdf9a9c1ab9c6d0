// Gathers by stores to the peers' memory: of every rank's query heads, and of a prefix chunk's KV
// rows. Each is an exchange with its own flags and epochs, and operations under names of its own,
// so that a scenario may hold back or leave out those of one exchange. In the fused form each is
// two nodes: one that sends, and one that waits and, for KV rows, takes them.
#pragma once

#include "kernels/direct_gather_ops.hpp"
#include "strategies/exchange.hpp"

namespace dcp {

struct QueryGatherOps {
  using Advance = DirectQueryAdvance;
  using Publish = DirectQueryPublish;
  using Wait = DirectQueryWait;
};
struct KvGatherOps {
  using Advance = DirectKvAdvance;
  using Publish = DirectKvPublish;
  using Wait = DirectKvWait;
};

inline constexpr ExchangeNames kQueryGatherNames{
    .signals = "query_signals", .state = "query_epoch", .is_read_in_place = true};
inline constexpr ExchangeNames kKvGatherNames{.signals = "kv_signals", .state = "kv_epoch"};

// Rows must be multiples of 16 bytes: those of a rank's h query heads and of padded heads, and KV
// rows. StepError alignment.
bool has_aligned_queries(const StepShape& shape);
bool has_aligned_kv(const StepShape& shape);
void require_query_alignment(const StepShape& shape);
void require_kv_alignment(const StepShape& shape);

// q_gathered [max exchange tokens, padded H, Dq] is one for all layers and slots: attention reads
// it in place, rows H * Dq apart. So it has room for padded heads behind the last row, which nobody
// writes. Its rows may be stored again once every rank has attended to them, which is what the
// combine that follows tells. The query: [T, h, Dq] contiguous.
void plan_direct_query_gather(const StepShape& shape, BufferPlan& plan);
void enqueue_direct_query_gather(const Lane& lane, const StepShape& shape, const BufferSet& buffers,
                                 const void* query);

// kv_slots [slots, N, T, Dkv] with T = tokens / N, from which rows go to `gathered` [N * T, Dkv],
// rank-major. The chunk: [T, Dkv].
void plan_direct_kv_gather(const StepShape& shape, BufferPlan& plan);
void enqueue_direct_kv_gather(const Lane& lane, const StepShape& shape, const BufferSet& buffers,
                              const void* chunk, void* gathered);

}  // namespace dcp
