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

void perform(const verb::Lock&, const VerbCall& call) { call.session.engine().lock_workspace(); }

void perform(const verb::Grow& verb, const VerbCall& call) {
  call.session.engine().grow_workspace(verb.rows);
}

void perform(const verb::Allocate& verb, const VerbCall& call) {
  call.session.engine().allocate(verb, call.step.rank);
}

void perform(const verb::Free& verb, const VerbCall& call) {
  call.session.engine().free(of_step(verb.buffer, call));
}

void perform(const verb::Rebind& verb, const VerbCall& call) {
  call.session.engine().rebind(of_step(verb.buffer, call));
}

void perform(const verb::Remap& verb, const VerbCall& call) {
  call.session.engine().remap(of_step(verb.buffer, call));
}

void perform(const verb::Poison& verb, const VerbCall& call) {
  call.session.engine().poison(of_step(verb.buffer, call));
}

void perform(const verb::Canary& verb, const VerbCall& call) {
  call.session.engine().canary(of_step(verb.buffer, call));
}

void perform(const verb::CheckCanary& verb, const VerbCall& call) {
  call.session.engine().check_canary(of_step(verb.buffer, call));
}

}  // namespace dcp
