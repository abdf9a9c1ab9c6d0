#include "kernels/direct_send.hpp"

namespace dcp {

DirectAdvance::Params DirectSend::Params::advance() const {
  return {.state = state, .num_slots = num_slots};
}

DirectDispatch::Params DirectSend::Params::dispatch() const {
  return {.out = out,
          .lse = lse,
          .payload = payload,
          .lse_slots = lse_slots,
          .state = state,
          .batch = batch,
          .stores = stores,
          .num_tokens = num_tokens,
          .max_num_tokens = max_num_tokens,
          .num_heads = num_heads,
          .head_dim = head_dim,
          .world_size = world_size,
          .rank = rank,
          .num_slots = num_slots};
}

DirectPublish::Params DirectSend::Params::publish() const {
  return {.state = state,
          .signals = signals,
          .stores = stores,
          .world_size = world_size,
          .rank = rank,
          .num_slots = num_slots};
}

// The parts' accesses; their state is one.
void DirectSend::accesses(const Params& params, std::vector<Access>& out) {
  std::vector<Access> parts;
  DirectAdvance::accesses(params.advance(), parts);
  const std::size_t num_of_advance = parts.size();
  DirectDispatch::accesses(params.dispatch(), parts);
  DirectPublish::accesses(params.publish(), parts);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i < num_of_advance || parts[i].data != params.state) out.push_back(parts[i]);
  }
}

void DirectSend::run(const Params& params) {
  DirectAdvance::run(params.advance());
  DirectDispatch::run(params.dispatch());
  DirectPublish::run(params.publish());
}

}  // namespace dcp
