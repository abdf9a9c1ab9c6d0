// Schedules by their names.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "runtime/host/schedule_policy.hpp"

namespace dcp {

inline constexpr std::array<std::string_view, 5> kScheduleNames = {"earliest", "latest", "uniform",
                                                                   "pct", "pos"};

// Whether it is one of the names, or decisions as text (written_schedule.hpp).
bool is_schedule(std::string_view text);

// What is_schedule() takes; `seed` is of those that draw.
std::unique_ptr<SchedulePolicy> make_schedule(std::string_view text, std::uint64_t seed);

}  // namespace dcp
