// Collectives of one rank: enqueued like ops, captured like ops.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/dtype.hpp"
#include "core/handles.hpp"

namespace dcp {

//   all_gather      send [count] -> recv [N][count], in rank order
//   reduce_scatter  send [N][count] -> recv [count]: the sum over ranks of this rank's part
//   all_reduce      send [count] -> recv [count]: the sum over ranks
//   all_to_all      send [N][count] -> recv [N][count]: part p goes to rank p, and arrives there as
//                   the part of the sender
enum class CollectiveKind : std::uint8_t { kAllGather, kReduceScatter, kAllReduce, kAllToAll };

std::string_view name(CollectiveKind kind);  // "all_gather"

// What moves: `count` elements of `dtype` per rank, as NCCL counts.
struct Message {
  const void* send;
  void* recv;
  std::int64_t count;
  DType dtype;
};

class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  virtual void enqueue(Stream stream, CollectiveKind kind, const Message& message) = 0;
};

}  // namespace dcp
