// One timed thing, as the benchmark report prints it.
#pragma once

#include <cstdint>
#include <string>

namespace dcp {

struct BenchRecord {
  std::string name;    // "pack", "copy_kernel", ...
  std::string layout;  // of the packed rows; "": does not apply, as for the zeros below
  std::string dtype;
  int world_size = 0;
  int num_heads = 0;
  int head_dim = 0;
  std::int64_t num_tokens = 0;
  std::string level;  // where the launch reads from: "l2" or "hbm"
  double time_us = 0;
  double size_bytes = 0;  // that must be read, plus those that must be written

  double gbps() const { return time_us > 0 ? size_bytes / time_us / 1e3 : 0; }
};

}  // namespace dcp
