#include "audit/graph_order.hpp"

namespace dcp::audit {

GraphOrder::GraphOrder(const std::vector<Node>& nodes)
    : num_words_((nodes.size() + 63) / 64), before_(nodes.size() * num_words_, 0) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::uint64_t* mine = before_.data() + i * num_words_;
    for (const Dependency& dependency : nodes[i].dependencies) {
      const auto other = static_cast<std::size_t>(dependency.node);
      for (std::size_t word = 0; word < num_words_; ++word) {
        mine[word] |= before_[other * num_words_ + word];
      }
      if (dependency.is_programmatic && !dependency.consumer_waits) continue;
      mine[other / 64] |= std::uint64_t{1} << (other % 64);
    }
  }
}

}  // namespace dcp::audit
