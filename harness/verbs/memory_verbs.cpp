// Verbs on memory.
#include "harness/verbs/verbs.hpp"

namespace dcp {

namespace {

// The buffer on the step's rank, unless it names its own.
BufferRef of_step(BufferRef ref, const VerbCall& call) {
  if (!ref.rank) ref.rank = call.step.rank;
  return ref;
}

}  // namespace

void perform(const verb::Poison& verb, const VerbCall& call) {
  call.session.engine().poison(of_step(verb.buffer, call));
}

}  // namespace dcp
