#include <cstring>

#include "comm/simulated/communicator.hpp"

namespace dcp {

namespace {

using Calls = std::vector<const CollectiveOp::Params*>;

void copy_part(const CollectiveOp::Params& from, std::int64_t from_part,
               const CollectiveOp::Params& to, std::int64_t to_part) {
  const std::size_t part = static_cast<std::size_t>(from.count) * size_bytes(from.dtype);
  const auto* source = static_cast<const std::byte*>(from.send) + from_part * part;
  auto* target = static_cast<std::byte*>(to.recv) + to_part * part;
  if (part > 0) std::memmove(target, source, part);
}

// Sum of the ranks' terms first..last-1 by halves, every partial sum rounded to T.
template <class T>
T sum_of_ranks(const Calls& calls, std::size_t first, std::size_t last, std::int64_t element) {
  if (last - first == 1) return static_cast<const T*>(calls[first]->send)[element];
  const std::size_t middle = first + (last - first + 1) / 2;
  return from_float<T>(to_float(sum_of_ranks<T>(calls, first, middle, element)) +
                       to_float(sum_of_ranks<T>(calls, middle, last, element)));
}

// Sum over ranks of part `part` of every rank's send buffer.
template <class T>
std::vector<T> sum_of_part(const Calls& calls, std::int64_t part) {
  const std::int64_t count = calls[0]->count;
  std::vector<T> sum;
  sum.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    sum.push_back(sum_of_ranks<T>(calls, 0, calls.size(), part * count + i));
  }
  return sum;
}

// All sums are complete before the first is stored: send and recv may be the same buffer.
template <class T>
void reduce(const Calls& calls, bool scatter) {
  std::vector<std::vector<T>> sums;
  const std::size_t num_parts = scatter ? calls.size() : 1;
  for (std::size_t part = 0; part < num_parts; ++part) {
    sums.push_back(sum_of_part<T>(calls, static_cast<std::int64_t>(part)));
  }
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    const std::vector<T>& sum = sums[scatter ? rank : 0];
    if (!sum.empty()) std::memcpy(calls[rank]->recv, sum.data(), sum.size() * sizeof(T));
  }
}

}  // namespace

void move_bytes(const Calls& calls) {
  const CollectiveKind kind = calls[0]->kind;
  if (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter) {
    dispatch_dtype(calls[0]->dtype,
                   [&]<class T>() { reduce<T>(calls, kind == CollectiveKind::kReduceScatter); });
    return;
  }
  for (const auto* from : calls) {
    for (const auto* to : calls) {
      copy_part(*from, kind == CollectiveKind::kAllToAll ? to->rank : 0, *to, from->rank);
    }
  }
}

}  // namespace dcp
