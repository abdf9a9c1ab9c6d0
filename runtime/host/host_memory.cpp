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

std::byte* HostMemory::add_block(std::string_view owner, std::size_t size_bytes) {
  Block block;
  block.size_bytes = rounded_up(size_bytes);
  block.owner = owner;
  back(block);
  blocks_.push_back(std::move(block));
  return blocks_.back().data;
}

Buffer HostMemory::record(std::string_view name, std::string_view owner, const Range& range) {
  const Allocation& entry =
      ledger_.add(std::string(name), std::string(owner), range.data, range.size_bytes);
  return {.data = range.data, .size_bytes = range.size_bytes, .id = entry.id};
}

Buffer HostMemory::allocate(std::string_view name, std::string_view owner, std::size_t size_bytes) {
  return record(name, owner, {add_block(owner, size_bytes), size_bytes});
}

std::vector<Buffer> HostMemory::allocate_together(std::span<const BufferRequest> parts,
                                                  std::string_view owner) {
  std::size_t total = 0;
  for (const BufferRequest& part : parts) total += aligned_part(part.size_bytes);
  std::byte* data = add_block(owner, total);
  std::vector<Buffer> buffers;
  for (const BufferRequest& part : parts) {
    buffers.push_back(record(part.name, owner, {data, part.size_bytes}));
    data += aligned_part(part.size_bytes);
  }
  return buffers;
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
    return record(name, capture.pool, {block.data, size_bytes});
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
  return record(old.name, old.owner, {buffer.data, buffer.size_bytes});
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
