// Values that `set` changed for a later step, until a step takes them: one that no step takes would
// be a fault that looks tested and is not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/scenario.hpp"

namespace dcp {

class AwaitedSets {
 public:
  enum class StepKind : unsigned { kCapture = 1, kReplay = 2, kEager = 4 };  // kReplay: of a graph

  // Of a step that has set a value. InputError at `place` where an earlier one of the same key and
  // rank still waits.
  void add(const verb::Set& what, std::optional<int> rank, const Place& place);

  // A step is about to run or to be captured on these ranks (none: on all). InputError at the place
  // of a value that it uses up without any effect.
  void meet(StepKind kind, const std::vector<int>& ranks);

  // No step follows. InputError at the place of a value that waits for one.
  void finish() const;

 private:
  struct Waiting {
    std::string key;
    std::optional<int> rank;
    Place place;
  };
  std::vector<Waiting> waiting_;
};

}  // namespace dcp
