// The closed lists of identifiers that scenarios and reports use, each with a line for people.
#pragma once

#include <span>
#include <string_view>

namespace dcp {

struct Kind {
  std::string_view name;
  std::string_view description;
};

// Proven by the auditor from a captured graph and the ledger, even if the numbers are right.
std::span<const Kind> hazard_kinds();

// Seen while a step runs: the step ends, all ranks drain and start anew.
std::span<const Kind> failure_kinds();

// Refuse a step: nothing is launched.
std::span<const Kind> error_kinds();

// The combine strategies, in the order of the documentation.
std::span<const Kind> strategy_kinds();

// Values that a `set` step may change.
std::span<const Kind> settable_values();

// Buffers of the engine that a step may name.
std::span<const Kind> buffer_kinds();

bool contains(std::span<const Kind> kinds, std::string_view name);

}  // namespace dcp
