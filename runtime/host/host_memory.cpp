#include "runtime/host/host_memory.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace dcp {

namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::string_view kPinned = "pinned";  // owner of memory that the program itself writes

std::size_t rounded_up(std::size_t size_bytes) {
  return (std::max<std::size_t>(size_bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
}

bool touches(const GraphNode& node, const std::byte* data, std::size_t size_bytes) {
  std::vector<Access> accesses;
  node.op->accesses(node.params.data(), accesses);
  return std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    const auto* begin = static_cast<const std::byte*>(access.data);
    return access.size_bytes > 0 && begin < data + size_bytes && begin + access.size_bytes > data;
  });
}

}  // namespace

void HostMemory::poison(std::byte* data, std::size_t size_bytes) const {
  if (backing_ == Backing::kBytes) dcp::poison(data, size_bytes);
}

void HostMemory::back(Block& block) {
  if (backing_ == Backing::kNothing && block.owner != kPinned) {
    block.data = reinterpret_cast<std::byte*>(next_address_);
    next_address_ += block.size_bytes;
    return;
  }
  block.storage = std::make_unique_for_overwrite<std::byte[]>(block.size_bytes + kAlignment);
  const auto address = reinterpret_cast<std::uintptr_t>(block.storage.get());
  block.data = block.storage.get() + (kAlignment - address % kAlignment) % kAlignment;
  dcp::poison(block.data, block.size_bytes);
}

Buffer HostMemory::allocate(std::string_view name, std::string_view owner, std::size_t size_bytes) {
  Block block;
  block.size_bytes = rounded_up(size_bytes);
  block.owner = owner;
  back(block);
  blocks_.push_back(std::move(block));
  std::byte* data = blocks_.back().data;
  const Allocation& entry = ledger_.add(std::string(name), std::string(owner), data, size_bytes);
  return {.data = data, .size_bytes = size_bytes, .id = entry.id};
}

Buffer HostMemory::allocate_from_pool(std::string_view name, std::size_t size_bytes,
                                      const GraphRecord& capture,
                                      const std::vector<std::vector<int>>& frontiers) {
  std::vector<std::vector<bool>> done_before;  // per capturing stream, the nodes that precede it
  for (const auto& frontier : frontiers) done_before.push_back(capture.ancestors_of(frontier));
  const auto last_users_are_done = [&](const Block& block) {
    for (std::size_t i = 0; i < capture.nodes.size(); ++i) {
      if (!touches(capture.nodes[i], block.data, block.size_bytes)) continue;
      for (const auto& done : done_before) {
        if (!done[i]) return false;
      }
    }
    return true;
  };
  for (Block& block : blocks_) {
    if (!block.free_in_pool || block.owner != capture.pool || block.size_bytes < size_bytes ||
        !last_users_are_done(block)) {
      continue;
    }
    block.free_in_pool = false;
    const Allocation& entry = ledger_.add(std::string(name), capture.pool, block.data, size_bytes);
    return {.data = block.data, .size_bytes = size_bytes, .id = entry.id};
  }
  return allocate(name, capture.pool, size_bytes);
}

void HostMemory::release(const Buffer& buffer) {
  ledger_.mark_freed(buffer.id);
  freed_[buffer.data] = buffer.size_bytes;
}

Buffer HostMemory::remap(const Buffer& buffer) {
  const Allocation old = ledger_.at(buffer.id);
  ledger_.mark_freed(buffer.id, Ending::kRemapped);
  poison(buffer.data, buffer.size_bytes);
  const Allocation& entry = ledger_.add(old.name, old.owner, buffer.data, buffer.size_bytes);
  return {.data = buffer.data, .size_bytes = buffer.size_bytes, .id = entry.id};
}

std::vector<HostMemory::Range> HostMemory::freed_parts(const void* data,
                                                       std::size_t size_bytes) const {
  std::vector<Range> parts;
  const auto* begin = static_cast<const std::byte*>(data);
  const std::byte* end = begin + size_bytes;
  auto next = freed_.upper_bound(begin);
  if (next != freed_.begin()) --next;
  for (; next != freed_.end() && next->first < end; ++next) {
    const std::byte* first = std::max(begin, next->first);
    const std::byte* last = std::min(end, next->first + next->second);
    if (first >= last) continue;
    parts.push_back({const_cast<std::byte*>(first), static_cast<std::size_t>(last - first)});
  }
  return parts;
}

void HostMemory::release_to_pool(const Buffer& buffer, const GraphRecord& capture) {
  ledger_.mark_freed(buffer.id, Ending::kToPool);
  Block& block = block_of(buffer.data);
  assert(block.owner == capture.pool);
  static_cast<void>(capture);
  block.free_in_pool = true;
}

void HostMemory::destroy_pool(std::string_view pool) {
  for (Block& block : blocks_) {
    if (block.owner != pool) continue;
    poison(block.data, block.size_bytes);
    block.free_in_pool = false;
    freed_[block.data] = block.size_bytes;
  }
  for (const Allocation& allocation : ledger_.all()) {
    if (allocation.owner == pool && allocation.live) ledger_.mark_freed(allocation.id);
  }
}

HostMemory::Block& HostMemory::block_of(const std::byte* data) {
  const auto found = std::find_if(blocks_.begin(), blocks_.end(),
                                  [&](const Block& block) { return block.data == data; });
  assert(found != blocks_.end());
  return *found;
}

}  // namespace dcp
