// Verbs on captures, streams and single operations, and on dynamic values.
#include "harness/verbs/verbs.hpp"

namespace dcp {

void perform(const verb::DuringCapture& verb, const VerbCall& call) {
  call.session.engine().call_during_next_capture(verb, call.step.rank);
}

void perform(const verb::Throw& verb, const VerbCall& call) {
  call.session.disturbances().throw_at({verb.at, call.step.rank, call.step.place});
}

void perform(const verb::Skip& verb, const VerbCall& call) {
  call.session.disturbances().skip({verb.op, call.step.rank, call.step.place});
}

void perform(const verb::Stall& verb, const VerbCall& call) {
  call.session.disturbances().hold({verb.at, call.step.rank, call.step.place}, verb.until);
}

void perform(const verb::Fork& verb, const VerbCall& call) {
  call.session.engine().fork(verb.stream, call.step.rank);
}

void perform(const verb::Join& verb, const VerbCall& call) {
  call.session.engine().join(verb.stream, call.step.rank);
}

void perform(const verb::Place& verb, const VerbCall& call) {
  call.session.engine().place(verb.ubatch, verb.stream, call.step.rank);
}

void perform(const verb::Set& verb, const VerbCall& call) {
  call.session.engine().set(verb, call.step.rank);
}

}  // namespace dcp
