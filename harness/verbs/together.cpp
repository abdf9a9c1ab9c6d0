// Steps of different ranks at the same time. Ranks of a group agree on the step before they launch
// it; one that was given none is simply not there.
#include <algorithm>

#include "harness/verbs/verbs.hpp"

namespace dcp {

namespace {

bool same(const verb::Replay& a, const verb::Replay& b) {
  return a.batch == b.batch && a.graph == b.graph && a.times == b.times && a.stream == b.stream &&
         a.wait == b.wait;
}

bool same(const verb::Eager& a, const verb::Eager& b) {
  return a.batch == b.batch && a.stream == b.stream && a.wait == b.wait;
}

bool same(const verb::Capture& a, const verb::Capture& b) {
  return a.all == b.all && a.sizes == b.sizes && a.graph == b.graph && a.rows == b.rows &&
         a.batch == b.batch;
}

template <class V>
bool both_same(const Verb& a, const Verb& b) {
  const auto* first = std::get_if<V>(&a);
  const auto* second = std::get_if<V>(&b);
  return first != nullptr && second != nullptr && same(*first, *second);
}

void require_agreement(const std::vector<const Step*>& steps) {
  const Step& first = *steps.front();
  for (const Step* step : steps) {
    if (both_same<verb::Replay>(first.verb, step->verb) ||
        both_same<verb::Eager>(first.verb, step->verb) ||
        both_same<verb::Capture>(first.verb, step->verb)) {
      continue;
    }
    const auto told = [](const Step& of) {
      return "rank " + std::to_string(*of.rank) + " was given " + of.verb_name + " " +
             text_of(of.verb);
    };
    throw StepError("step_divergence", told(first) + ", " + told(*step));
  }
}

}  // namespace

void perform(const verb::Together& verb, const VerbCall& call) {
  std::vector<const Step*> shared;
  for (const Step& step : verb.steps) {
    if (enqueues_step(step.verb)) {
      shared.push_back(&step);
      continue;
    }
    std::visit(
        [&](const auto& own) {
          perform(own, {call.session, step, call.expect, call.report, call.settled});
        },
        step.verb);
  }
  if (shared.empty()) return;
  require_agreement(shared);

  ComputingStep all{.verb = shared.front()->verb, .ranks = {}, .names = {call.step.name}};
  for (const Step* step : shared) {
    all.ranks.push_back(*step->rank);
    all.names.push_back(step->name);
  }
  if (!std::holds_alternative<verb::Capture>(all.verb)) return compute(all, call);

  Step capture = *shared.front();
  if (static_cast<int>(all.ranks.size()) == call.session.scenario().world_size) {
    capture.rank.reset();
  }
  perform(std::get<verb::Capture>(capture.verb),
          {call.session, capture, call.expect, call.report, call.settled});
}

}  // namespace dcp
