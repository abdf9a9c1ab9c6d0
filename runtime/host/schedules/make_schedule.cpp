#include "runtime/host/schedules/make_schedule.hpp"

#include <algorithm>
#include <cassert>
#include <random>

#include "runtime/host/schedules/fixed_schedules.hpp"
#include "runtime/host/schedules/pct_schedule.hpp"
#include "runtime/host/schedules/pos_schedule.hpp"
#include "runtime/host/schedules/written_schedule.hpp"

namespace dcp {

namespace {

// As a scheduler draws that nobody decides for.
class UniformSchedule final : public SchedulePolicy {
 public:
  explicit UniformSchedule(std::uint64_t seed) : random_(seed) {}
  std::size_t choose(std::span<const Choice> choices) override {
    return static_cast<std::size_t>(random_() % choices.size());
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace

bool is_schedule(std::string_view text) {
  return std::find(kScheduleNames.begin(), kScheduleNames.end(), text) != kScheduleNames.end() ||
         parse_decisions(text).has_value();
}

std::unique_ptr<SchedulePolicy> make_schedule(std::string_view text, std::uint64_t seed) {
  assert(is_schedule(text));
  if (text == "earliest") return std::make_unique<EarliestStores>();
  if (text == "latest") return std::make_unique<LatestStores>();
  if (text == "uniform") return std::make_unique<UniformSchedule>(seed);
  if (text == "pct") return std::make_unique<PctSchedule>(seed);
  if (text == "pos") return std::make_unique<PosSchedule>(seed);
  return std::make_unique<WrittenSchedule>(*parse_decisions(text));
}

}  // namespace dcp
