#include "kernels/direct_advance.hpp"

#include "kernels/accesses.hpp"

namespace dcp {

void DirectAdvance::accesses(const Params& params, std::vector<Access>& out) {
  declare(out, params.state, sizeof(ExchangeState), Mode::kReadWrite, "state");
}

void DirectAdvance::run(const Params& params) {
  params.state->epoch = next_epoch(params.state->epoch, params.num_slots);
}

}  // namespace dcp
