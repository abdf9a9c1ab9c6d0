#include "kernels/direct_send_rows.hpp"

#include <algorithm>

namespace dcp {

// The parts' accesses; their state is one.
void DirectSendRows::accesses(const Params& params, std::vector<Access>& out) {
  std::vector<Access> rest;
  DirectStoreRows::accesses(params.store, rest);
  DirectPublish::accesses(params.publish, rest);
  DirectAdvance::accesses(params.advance, out);
  std::copy_if(rest.begin(), rest.end(), std::back_inserter(out),
               [&](const Access& access) { return access.data != params.advance.state; });
}

void DirectSendRows::run(const Params& params) {
  DirectAdvance::run(params.advance);
  DirectStoreRows::run(params.store);
  DirectPublish::run(params.publish);
}

}  // namespace dcp
