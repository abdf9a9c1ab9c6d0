// Programs by seed, and programs with calls left out. Both are played on the simulator while they
// are made, so that each call is one that `Order` allows where it stands.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/conformance/player.hpp"

namespace dcp::conformance {

// A program and what the simulator makes of it.
struct Played {
  Program program;
  Transcript transcript;
};

Played generate(std::uint64_t seed);

// The calls that are still allowed when the others are gone, played under `schedule_seed`.
Played play_allowed(std::uint64_t seed, const std::vector<Call>& calls,
                    std::uint64_t schedule_seed);

std::unique_ptr<World> make_simulator(std::uint64_t schedule_seed);

}  // namespace dcp::conformance
