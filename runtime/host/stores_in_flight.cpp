#include "runtime/host/stores_in_flight.hpp"

#include <algorithm>
#include <cstring>

namespace dcp {

bool StoresInFlight::overlap(const Store& a, const Store& b) {
  return a.at < b.at + b.bytes.size() && b.at < a.at + a.bytes.size();
}

StoresInFlight::StoresInFlight(int world_size) : senders_(static_cast<std::size_t>(world_size)) {
  for (Sender& sender : senders_) sender.to.resize(senders_.size());
}

void StoresInFlight::store(StoreRoute route, void* at, const void* bytes, std::size_t size_bytes) {
  add(route, at, bytes, size_bytes, Kind::kRows);
}

void StoresInFlight::store_polled(StoreRoute route, void* at, const void* bytes,
                                  std::size_t size_bytes) {
  add(route, at, bytes, size_bytes, Kind::kPolled);
}

void StoresInFlight::store_release(StoreRoute route, std::uint32_t* at, std::uint32_t value) {
  add(route, at, &value, sizeof(value), Kind::kFlag);
}

void StoresInFlight::add(StoreRoute route, void* at, const void* bytes, std::size_t size_bytes,
                         Kind kind) {
  Sender& sender = senders_[static_cast<std::size_t>(route.from)];
  const auto* const from = static_cast<const std::byte*>(bytes);
  const std::int64_t number = sender.num_made++;
  auto& stores = sender.to[static_cast<std::size_t>(route.to)];
  stores.push_back({.number = number,
                    .at = static_cast<std::byte*>(at),
                    .bytes = {from, from + size_bytes},
                    .kind = kind});
  if (kind != Kind::kFlag) sender.under_way.insert(number);
  const Candidate added{route.to, stores.size() - 1};
  if (!may_happen(sender, added)) return;
  sender.next.push_back(added);
  ++count_;
}

// What is there is in effect for every load that comes after this.
void StoresInFlight::acquire(int rank) {
  if (!order_.acquire) return;
  for (Sender& sender : senders_) {
    auto& stores = sender.to[static_cast<std::size_t>(rank)];
    const std::size_t num_gone = std::erase_if(stores, [](const Store& store) {
      if (store.is_there) std::memcpy(store.at, store.bytes.data(), store.bytes.size());
      return store.is_there;
    });
    if (num_gone > 0) find_next(sender);
  }
}

bool StoresInFlight::may_happen(const Sender& sender, const Candidate& candidate) const {
  const auto& stores = sender.to[static_cast<std::size_t>(candidate.to)];
  const Store& store = stores[candidate.index];
  if (store.kind == Kind::kFlag && order_.release && !sender.under_way.empty() &&
      *sender.under_way.begin() < store.number) {
    return false;
  }
  return std::none_of(stores.begin(), stores.begin() + static_cast<std::ptrdiff_t>(candidate.index),
                      [&](const Store& earlier) { return overlap(earlier, store); });
}

std::pair<int, StoresInFlight::Candidate> StoresInFlight::find(std::size_t i) const {
  int from = 0;
  while (i >= senders_[static_cast<std::size_t>(from)].next.size()) {
    i -= senders_[static_cast<std::size_t>(from++)].next.size();
  }
  return {from, senders_[static_cast<std::size_t>(from)].next[i]};
}

Arrival StoresInFlight::at(std::size_t i) const {
  const auto [from, candidate] = find(i);
  const auto& stores = senders_[static_cast<std::size_t>(from)].to[candidate.to];
  const auto store = stores.begin() + static_cast<std::ptrdiff_t>(candidate.index);
  const auto kind = store->kind != Kind::kRows ? Arrival::kFlag
                    : store->is_there          ? Arrival::kEffect
                                               : Arrival::kLanding;
  const bool holds_up = std::any_of(store + 1, stores.end(),
                                    [&](const Store& later) { return overlap(later, *store); });
  return {.from = from,
          .to = candidate.to,
          .kind = kind,
          .number = store->number,
          .at = store->at,
          .size_bytes = store->bytes.size(),
          .holds_up = holds_up};
}

void StoresInFlight::happen(std::size_t i) {
  const auto [from, candidate] = find(i);
  Sender& sender = senders_[static_cast<std::size_t>(from)];
  auto& stores = sender.to[static_cast<std::size_t>(candidate.to)];
  Store& store = stores[candidate.index];
  sender.under_way.erase(store.number);
  if (store.kind == Kind::kRows && !store.is_there) {
    store.is_there = true;
  } else {
    std::memcpy(store.at, store.bytes.data(), store.bytes.size());
    stores.erase(stores.begin() + static_cast<std::ptrdiff_t>(candidate.index));
  }
  find_next(sender);
}

void StoresInFlight::forget() {
  for (Sender& sender : senders_) {
    for (auto& stores : sender.to) stores.clear();
    sender.under_way.clear();
    sender.next.clear();
  }
  count_ = 0;
}

void StoresInFlight::find_next(Sender& sender) {
  count_ -= sender.next.size();
  sender.next.clear();
  for (std::size_t to = 0; to < sender.to.size(); ++to) {
    for (std::size_t index = 0; index < sender.to[to].size(); ++index) {
      const Candidate candidate{static_cast<int>(to), index};
      if (may_happen(sender, candidate)) sender.next.push_back(candidate);
    }
  }
  count_ += sender.next.size();
}

}  // namespace dcp
