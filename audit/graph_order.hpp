// What a graph promises about the order of its nodes: reachability over its edges.
#pragma once

#include <cstdint>
#include <vector>

#include "audit/record.hpp"

namespace dcp::audit {

class GraphOrder {
 public:
  explicit GraphOrder(const std::vector<Node>& nodes);

  // Whether `first` has completed, in every run, before `second` touches anything. A programmatic
  // edge passes on what preceded the producer's start, and the producer's own completion only where
  // the consumer waits for it.
  bool precedes(int first, int second) const {
    const auto bit = static_cast<std::size_t>(first);
    return (before_[static_cast<std::size_t>(second) * num_words_ + bit / 64] >> (bit % 64) & 1) !=
           0;
  }
  bool orders(int a, int b) const { return precedes(a, b) || precedes(b, a); }

 private:
  std::size_t num_words_;
  std::vector<std::uint64_t> before_;  // [nodes][num_words_] bits: nodes that complete before
};

}  // namespace dcp::audit
