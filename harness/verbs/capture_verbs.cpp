// Verbs on captures, streams and single operations, and on dynamic values.
#include <stdexcept>

#include "harness/verbs/verbs.hpp"

namespace dcp {

namespace {

// A word that the engine does not know is bad input at the step.
template <class Action>
void at_step(const VerbCall& call, const Action& action) {
  try {
    action();
  } catch (const std::invalid_argument& error) {
    throw InputError(call.step.place, error.what());
  }
}

}  // namespace

void perform(const verb::DuringCapture& verb, const VerbCall& call) {
  at_step(call, [&] { call.session.engine().call_during_next_capture(verb, call.step.rank); });
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
  at_step(call, [&] { call.session.engine().set(verb, call.step.rank); });
  call.session.awaited_sets().add(verb, call.step.rank, call.step.place);
}

}  // namespace dcp
