// What each step verb does to the run. One overload per verb; StepRunner picks it by std::visit.
// They throw StepError, ApiError and Failure as findings of the step, InputError for bad input.
#pragma once

#include "harness/session.hpp"

namespace dcp {

struct VerbCall {
  Session& session;
  const Step& step;
  const Expect& expect;
  StepReport& report;
  const Session::Settled& settled;  // for steps that are checked later

  // The ranks that the step is for: its own, or all (an empty list).
  std::vector<int> ranks() const {
    return step.rank ? std::vector<int>{*step.rank} : std::vector<int>{};
  }
};

// run_verbs.cpp
void perform(const verb::Capture& verb, const VerbCall& call);
void perform(const verb::Replay& verb, const VerbCall& call);
void perform(const verb::Eager& verb, const VerbCall& call);
void perform(const verb::Sync& verb, const VerbCall& call);
void perform(const verb::StubAttention& verb, const VerbCall& call);
void perform(const verb::Destroy& verb, const VerbCall& call);

// together.cpp
void perform(const verb::Together& verb, const VerbCall& call);

// memory_verbs.cpp
void perform(const verb::Lock& verb, const VerbCall& call);
void perform(const verb::Grow& verb, const VerbCall& call);
void perform(const verb::Allocate& verb, const VerbCall& call);
void perform(const verb::Free& verb, const VerbCall& call);
void perform(const verb::Rebind& verb, const VerbCall& call);
void perform(const verb::Remap& verb, const VerbCall& call);
void perform(const verb::Poison& verb, const VerbCall& call);
void perform(const verb::Canary& verb, const VerbCall& call);
void perform(const verb::CheckCanary& verb, const VerbCall& call);

// capture_verbs.cpp
void perform(const verb::DuringCapture& verb, const VerbCall& call);
void perform(const verb::Throw& verb, const VerbCall& call);
void perform(const verb::Skip& verb, const VerbCall& call);
void perform(const verb::Stall& verb, const VerbCall& call);
void perform(const verb::Fork& verb, const VerbCall& call);
void perform(const verb::Join& verb, const VerbCall& call);
void perform(const verb::Place& verb, const VerbCall& call);
void perform(const verb::Set& verb, const VerbCall& call);

// Whether the verb enqueues a decode step, or records one.
bool enqueues_step(const Verb& verb);

// Whether the verb takes, gives back or replaces memory on purpose. A hazard that it causes is held
// against it where it says what it expects; else against the launches that meet it.
bool changes_memory(const Verb& verb);

// The batch that a verb runs or captures, "" for none.
std::string batch_of(const Verb& verb);

// What the verb acts on, for people.
std::string text_of(const Verb& verb);

std::string graph_name(std::int64_t rows);  // "g4"

// What to capture so many rows as: the name that the step gives, else `g<rows>`. InputError at the
// step where a name that it does not give is that of a graph of other rows or of another cut.
std::string name_to_capture(Engine& engine, const Step& step, std::int64_t rows,
                            const Batch* batch);

// A computing step on the ranks, checked now or, where it is not waited for, later.
struct ComputingStep {
  const Verb& verb;  // Replay or Eager
  std::vector<int> ranks;
  std::vector<std::string> names;  // besides its index
};
void compute(const ComputingStep& step, const VerbCall& call);

}  // namespace dcp
