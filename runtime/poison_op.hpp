// Fills memory with NaN, in the order of a stream.
#pragma once

#include <cstdint>
#include <vector>

#include "core/poison.hpp"
#include "kernels/op.hpp"

namespace dcp {

struct PoisonFreed {
  static constexpr std::string_view kName = "poison_freed";
  struct Params {
    void* data;
    std::uint64_t size_bytes;
  };
  static void accesses(const Params& p, std::vector<Access>& out) {
    out.push_back({p.data, p.size_bytes, Mode::kWrite, "data"});
  }
  static void run(const Params& p) { poison(p.data, p.size_bytes); }
};

}  // namespace dcp
