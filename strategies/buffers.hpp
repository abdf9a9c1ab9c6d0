// Buffers by name: what a step needs (planned without allocating), and what it got.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/dtype.hpp"
#include "core/handles.hpp"
#include "kernels/exchange_state.hpp"

namespace dcp {

// Activation: belongs to one graph, one copy per layer, as tensors of a captured model do.
// Workspace: scratch that every layer uses anew; the workspace policy says where it lives.
// Symmetric: every rank has one for each ubatch, from before the first capture to the end, at
// addresses that its peers know; its size does not depend on the step.
enum class Lifetime { kActivation, kWorkspace, kSymmetric };

// What a symmetric buffer holds when its exchanges begin, or begin anew after a failure.
enum class Content {
  kRows,            // nothing yet
  kFlags,           // u32 [slots, blocks, N]
  kLines,           // ExchangeLine [slots, ...]
  kState,           // an ExchangeState
  kPublishedState,  // the same, in which nobody counts what was consumed
};

constexpr bool is_state(Content content) {
  return content == Content::kState || content == Content::kPublishedState;
}

struct BufferSpec {
  std::string name;
  std::size_t size_bytes;
  Lifetime lifetime;
  DType dtype = DType::kFp32;            // of what has a shape
  std::vector<std::int64_t> shape = {};  // elements, row-major; empty: bytes without a stated form
  Content content = Content::kRows;
};

class BufferPlan {
 public:
  void add(std::string_view name, std::size_t size_bytes, Lifetime lifetime) {
    specs_.push_back({.name = std::string(name), .size_bytes = size_bytes, .lifetime = lifetime});
  }
  void add(std::string_view name, DType dtype, std::vector<std::int64_t> shape, Lifetime lifetime) {
    std::size_t size = size_bytes(dtype);
    for (const std::int64_t dim : shape) size *= static_cast<std::size_t>(dim);
    specs_.push_back({.name = std::string(name),
                      .size_bytes = size,
                      .lifetime = lifetime,
                      .dtype = dtype,
                      .shape = std::move(shape)});
  }
  void add(BufferSpec spec) { specs_.push_back(std::move(spec)); }
  const std::vector<BufferSpec>& specs() const& { return specs_; }
  const std::vector<BufferSpec>& specs() const&& = delete;  // the plan must outlive its specs

 private:
  std::vector<BufferSpec> specs_;
};

class BufferSet {
 public:
  void add(std::string_view name, const Buffer& buffer) { buffers_[std::string(name)] = buffer; }

  // A symmetric buffer: `of_ranks` are those of all ranks, its own included.
  void add(std::string_view name, const Buffer& buffer, std::vector<std::byte*> of_ranks) {
    add(name, buffer);
    peers_[std::string(name)] = std::move(of_ranks);
  }

  template <class T = void>
  T* at(std::string_view name) const {
    const auto found = buffers_.find(name);
    assert(found != buffers_.end());
    return static_cast<T*>(static_cast<void*>(found->second.data));
  }
  const Buffer* find(std::string_view name) const {
    const auto found = buffers_.find(name);
    return found == buffers_.end() ? nullptr : &found->second;
  }
  const std::map<std::string, Buffer, std::less<>>& all() const { return buffers_; }

  bool is_symmetric(std::string_view name) const { return peers_.find(name) != peers_.end(); }

  // Where the ranks have a symmetric buffer.
  template <class T = void>
  PeerPtrs<T> peers(std::string_view name) const {
    const auto found = peers_.find(name);
    assert(found != peers_.end());
    PeerPtrs<T> pointers{};
    for (std::size_t rank = 0; rank < found->second.size(); ++rank) {
      pointers.at[rank] = static_cast<T*>(static_cast<void*>(found->second[rank]));
    }
    return pointers;
  }

 private:
  std::map<std::string, Buffer, std::less<>> buffers_;
  std::map<std::string, std::vector<std::byte*>, std::less<>> peers_;
};

}  // namespace dcp
