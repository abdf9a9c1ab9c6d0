#include "comm/cuda/collective_faults.hpp"

#include "comm/collectives.hpp"

namespace dcp {

namespace {

std::string call_text(std::int64_t kind, std::int64_t count, std::int64_t dtype) {
  return std::string(name(static_cast<CollectiveKind>(kind))) + " of " + std::to_string(count) +
         " " + std::string(name(static_cast<DType>(dtype)));
}

std::string describe_collective(int rank, const Fault& fault) {
  const auto& v = fault.values;
  if (static_cast<FaultKind>(fault.kind) == FaultKind::kMismatch) {
    return "rank " + std::to_string(rank) + " calls " + call_text(v[4], v[5], v[6]) + ", rank " +
           std::to_string(v[0]) + " calls " + call_text(v[1], v[2], v[3]);
  }
  return "rank " + std::to_string(rank) + " waits in " +
         std::string(name(static_cast<CollectiveKind>(v[2]))) + " (collective " +
         std::to_string(v[1]) + ") for rank " + std::to_string(v[0]) +
         (v[3] == 0 ? ", which has not begun it" : ", which has not finished it");
}

}  // namespace

Failure failure_of(int rank, const Fault& fault) {
  const auto kind = static_cast<FaultKind>(fault.kind);
  const bool of_collective = kind == FaultKind::kMismatch || kind == FaultKind::kPeerMissing;
  return Failure(failure_kind(fault), rank,
                 of_collective ? describe_collective(rank, fault) : describe(fault));
}

StepError live_graphs_error(std::size_t num_live) {
  return StepError("comm_has_live_graphs",
                   std::to_string(num_live) +
                       " captured graphs still hold the communicators: destroy them first");
}

}  // namespace dcp
