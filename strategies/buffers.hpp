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

namespace dcp {

// Activation: belongs to one graph, one copy per layer, as tensors of a captured model do.
// Workspace: scratch that every layer uses anew; the workspace policy says where it lives.
enum class Lifetime { kActivation, kWorkspace };

struct BufferSpec {
  std::string name;
  std::size_t size_bytes;
  Lifetime lifetime;
  DType dtype = DType::kFp32;            // of what has a shape
  std::vector<std::int64_t> shape = {};  // elements, row-major; empty: bytes without a stated form
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
  const std::vector<BufferSpec>& specs() const& { return specs_; }
  const std::vector<BufferSpec>& specs() const&& = delete;  // the plan must outlive its specs

 private:
  std::vector<BufferSpec> specs_;
};

class BufferSet {
 public:
  void add(std::string_view name, const Buffer& buffer) { buffers_[std::string(name)] = buffer; }

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

 private:
  std::map<std::string, Buffer, std::less<>> buffers_;
};

}  // namespace dcp
