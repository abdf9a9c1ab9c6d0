#include "comm/simulated/communicator.hpp"

#include <algorithm>
#include <cassert>

#include "core/error.hpp"

namespace dcp {

std::string_view name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllGather:
      return "all_gather";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::kAllReduce:
      return "all_reduce";
    case CollectiveKind::kAllToAll:
      return "all_to_all";
  }
  return "?";
}

namespace {

std::string describe(const CollectiveOp::Params& call) {
  return std::string(name(call.kind)) + " of " + std::to_string(call.count) + " " +
         std::string(name(call.dtype));
}

bool same_call(const CollectiveOp::Params& a, const CollectiveOp::Params& b) {
  return a.kind == b.kind && a.count == b.count && a.dtype == b.dtype;
}

}  // namespace

void Communicator::arrive(const CollectiveOp::Params& call) {
  const std::int64_t index = num_arrived_[call.rank]++;
  auto found = std::find_if(open_.begin(), open_.end(),
                            [&](const Exchange& exchange) { return exchange.index == index; });
  if (found == open_.end()) {
    open_.emplace_back();
    found = std::prev(open_.end());
    found->index = index;
    found->calls.resize(num_arrived_.size(), nullptr);
    found->has_finished.resize(num_arrived_.size(), false);
  }
  for (const CollectiveOp::Params* other : found->calls) {
    if (other == nullptr || same_call(*other, call)) continue;
    throw Failure("mismatch", call.rank,
                  "collective " + std::to_string(index) + ": rank " + std::to_string(call.rank) +
                      " calls " + describe(call) + ", rank " + std::to_string(other->rank) +
                      " calls " + describe(*other));
  }
  found->calls[call.rank] = &call;
  ++found->num_arrived;
}

bool Communicator::complete(const CollectiveOp::Params& call) const {
  return open_[exchange_of(call)].num_arrived == world_size();
}

std::string Communicator::missing(const CollectiveOp::Params& call) const {
  const Exchange& exchange = open_[exchange_of(call)];
  std::string text = describe(call) + " (collective " + std::to_string(exchange.index) +
                     "), where these ranks are missing:";
  for (std::size_t rank = 0; rank < exchange.calls.size(); ++rank) {
    if (exchange.calls[rank] == nullptr) text += " " + std::to_string(rank);
  }
  return text;
}

void Communicator::finish(const CollectiveOp::Params& call) {
  Exchange& exchange = open_[exchange_of(call)];
  if (!exchange.moved) move_bytes(exchange.calls);
  exchange.moved = true;
  exchange.has_finished[call.rank] = true;
  ++exchange.num_finished;
  while (!open_.empty() && open_.front().num_finished == world_size()) open_.pop_front();
}

void Communicator::reset() {
  open_.clear();
  std::fill(num_arrived_.begin(), num_arrived_.end(), 0);
}

std::size_t Communicator::exchange_of(const CollectiveOp::Params& call) const {
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const Exchange& exchange) {
    return exchange.calls[call.rank] == &call && !exchange.has_finished[call.rank];
  });
  assert(found != open_.end());
  return static_cast<std::size_t>(found - open_.begin());
}

void CollectiveOp::accesses(const Params& p, std::vector<Access>& out) {
  const std::size_t part = static_cast<std::size_t>(p.count) * size_bytes(p.dtype);
  const std::size_t all = part * static_cast<std::size_t>(p.communicator->world_size());
  const bool sends_all =
      p.kind == CollectiveKind::kReduceScatter || p.kind == CollectiveKind::kAllToAll;
  const bool receives_all =
      p.kind == CollectiveKind::kAllGather || p.kind == CollectiveKind::kAllToAll;
  out.push_back({p.send, sends_all ? all : part, Mode::kRead, "send"});
  out.push_back({p.recv, receives_all ? all : part, Mode::kWrite, "recv"});
}

void CollectiveOp::arrive(const Params& p) { p.communicator->arrive(p); }
bool CollectiveOp::ready(const Params& p) { return p.communicator->complete(p); }
std::string CollectiveOp::waits_for(const Params& p) { return p.communicator->missing(p); }
void CollectiveOp::run(const Params& p) { p.communicator->finish(p); }

}  // namespace dcp
