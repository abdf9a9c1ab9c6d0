#include "kernels/direct_send.hpp"

#include <algorithm>
#include <iterator>

namespace dcp {

// The parts' accesses; their state is one.
void DirectSend::accesses(const Params& params, std::vector<Access>& out) {
  std::vector<Access> rest;
  DirectDispatch::accesses(params.dispatch, rest);
  DirectPublish::accesses(params.publish, rest);
  DirectAdvance::accesses(params.advance, out);
  std::copy_if(rest.begin(), rest.end(), std::back_inserter(out),
               [&](const Access& access) { return access.data != params.advance.state; });
}

void DirectSend::run(const Params& params) {
  DirectAdvance::run(params.advance);
  DirectDispatch::run(params.dispatch);
  DirectPublish::run(params.publish);
}

}  // namespace dcp
