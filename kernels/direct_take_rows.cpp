#include "kernels/direct_take_rows.hpp"

#include <algorithm>

namespace dcp {

// The parts' accesses; their state is one.
void DirectTakeRows::accesses(const Params& params, std::vector<Access>& out) {
  std::vector<Access> wait;
  DirectWait::accesses(params.wait, wait);
  DirectReadRows::accesses(params.read, out);
  std::copy_if(wait.begin(), wait.end(), std::back_inserter(out),
               [&](const Access& access) { return access.data != params.read.state; });
}

void DirectTakeRows::run(const Params& params) {
  DirectWait::run(params.wait);
  DirectReadRows::run(params.read);
}

}  // namespace dcp
