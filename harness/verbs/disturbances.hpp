// Operations that a scenario leaves out, holds back, or lets throw: those that the next step
// enqueues, or the next capture records.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/scenario.hpp"
#include "runtime/interference.hpp"

namespace dcp {

class Disturbances final : public Interference {
 public:
  // An operation by its name, "attention" or "combine" for the op that does it; `rank`: absent: on
  // all. `place` is that of the step that asked.
  struct Target {
    std::string op;
    std::optional<int> rank;
    Place place;
  };
  void skip(Target target) { skips_.push_back({std::move(target)}); }
  void throw_at(Target target) { throws_.push_back({std::move(target)}); }
  // Until the step of that name begins.
  void hold(Target target, std::string until);

  void begin_step(const std::string& name);

  // A step has enqueued its operations, or a capture has recorded them. What was for it is over.
  // InputError at the place of a target that met no operation, unless the step was `refused`.
  void end_step(bool is_capture, bool refused);

  // No step follows. InputError at the place of a target that waits for one.
  void finish() const;

  Verdict judge(const Operation& operation) override;  // Failure rank_lost where one throws
  bool is_released(int hold) const override;
  std::string waits_for(int hold) const override;

 private:
  struct Wanted {
    Target target;
    bool has_met = false;
    int hold = 0;
  };
  Wanted* find(std::vector<Wanted>& wanted, const Operation& operation);
  void end(std::vector<Wanted>& wanted, bool refused);

  std::vector<Wanted> skips_;
  std::vector<Wanted> throws_;
  std::vector<Wanted> holds_;  // of the next step
  struct Hold {
    std::string op;
    std::string until;
    bool is_released = false;
  };
  std::deque<Hold> all_holds_;                 // by number
  std::set<std::pair<int, std::string>> met_;  // operations of the step, by rank, for messages
};

}  // namespace dcp
