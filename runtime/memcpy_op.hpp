// cudaMemcpyAsync as an op: reads `from` when it runs, not when it is enqueued.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/op.hpp"

namespace dcp {

struct MemcpyOp {
  static constexpr std::string_view kName = "memcpy";
  struct Params {
    void* to;
    const void* from;
    std::uint64_t size_bytes;
  };
  static void accesses(const Params& p, std::vector<Access>& out) {
    out.push_back({p.from, p.size_bytes, Mode::kRead, "from"});
    out.push_back({p.to, p.size_bytes, Mode::kWrite, "to"});
  }
  static void run(const Params& p) {
    if (p.size_bytes > 0) std::memcpy(p.to, p.from, p.size_bytes);
  }
};

}  // namespace dcp
