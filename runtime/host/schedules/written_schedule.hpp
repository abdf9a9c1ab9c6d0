// Schedules as text, so that one that was found can be run again: which of the choices was taken,
// decision by decision. "0_12.3.1" is the first choice 12 times, then the fourth, then the second,
// and from there on always the first.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/host/schedule_policy.hpp"

namespace dcp {

using Decisions = std::vector<std::uint32_t>;

std::string text_of(const Decisions& decisions);
std::optional<Decisions> parse_decisions(std::string_view text);  // nothing: it is no schedule

// Follows what was written. InputError where it does not fit the run: too few choices.
class WrittenSchedule final : public SchedulePolicy {
 public:
  explicit WrittenSchedule(Decisions decisions) : decisions_(std::move(decisions)) {}
  std::size_t choose(std::span<const Choice> choices) override;

 private:
  Decisions decisions_;
  std::size_t next_ = 0;
};

// Writes down what another policy chooses.
class RecordedSchedule final : public SchedulePolicy {
 public:
  explicit RecordedSchedule(SchedulePolicy& policy) : policy_(policy) {}
  std::size_t choose(std::span<const Choice> choices) override;
  void drained() override { policy_.drained(); }

  const Decisions& decisions() const { return decisions_; }

 private:
  SchedulePolicy& policy_;
  Decisions decisions_;
};

}  // namespace dcp
