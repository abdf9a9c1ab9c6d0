// How fast a graph can be replayed where nothing is checked.
#include <algorithm>
#include <chrono>

#include "engine/engine_state.hpp"

namespace dcp {

namespace {

using Clock = std::chrono::steady_clock;

double us_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::micro>(end - begin).count();
}

bool is_faster(const HostTime& a, const HostTime& b) { return a.sum_us() < b.sum_us(); }

}  // namespace

Pace Engine::pace(const Batch& batch, const std::string& graph, std::int64_t times) {
  const StepRun first = replay(batch, graph, 1);  // data, and whatever is loaded on first use
  std::vector<HostTime> sums(ranks_.size());
  const auto begin = Clock::now();
  // No rank may run ahead: one that fills its queue would keep the others from launching.
  for (std::int64_t i = 0; i < times; ++i) {
    each_rank(first.ranks, [&](Rank& rank, RankState& state) {
      const Stream stream = state.stream(rank.runtime, "");
      HostTime& sum = sums[static_cast<std::size_t>(rank.index)];
      Upload to_device = upload(rank, stream);
      const auto begun = Clock::now();
      state.inputs.stage_metadata(to_device, first.layout, first.step->ubatches);
      const auto staged = Clock::now();
      state.inputs.copy_metadata(stream, to_device);
      to_device.finish();
      const auto copied = Clock::now();
      rank.runtime.launch(first.step->ranks[rank.index].exec, stream);
      const auto launched = Clock::now();
      sum.stage_us += us_between(begun, staged);
      sum.copy_us += us_between(staged, copied);
      sum.launch_us += us_between(copied, launched);
    });
  }
  drain();
  const auto steps = static_cast<double>(times);
  const HostTime& slowest = *std::max_element(sums.begin(), sums.end(), is_faster);
  return {.host = {.stage_us = slowest.stage_us / steps,
                   .copy_us = slowest.copy_us / steps,
                   .launch_us = slowest.launch_us / steps},
          .step_us = us_between(begin, Clock::now()) / steps};
}

}  // namespace dcp
