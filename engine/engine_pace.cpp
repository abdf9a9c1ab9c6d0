// How fast a graph can be replayed where nothing is checked.
#include <algorithm>
#include <chrono>

#include "engine/engine_state.hpp"

namespace dcp {

namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

}  // namespace

Pace Engine::pace(const Batch& batch, const std::string& graph, std::int64_t times) {
  const StepRun first = replay(batch, graph, 1);  // data, and whatever is loaded on first use
  std::vector<double> host_us(ranks_.size(), 0);
  const auto begin = Clock::now();
  // No rank may run ahead: one that fills its queue would keep the others from launching.
  for (std::int64_t i = 0; i < times; ++i) {
    each_rank(first.ranks, [&](Rank& rank, RankState& state) {
      const Stream stream = state.stream(rank.runtime, "");
      const auto enqueued = Clock::now();
      Upload to_device = upload(rank, stream);
      state.inputs.stage_metadata(to_device, first.layout, first.step->ubatches);
      state.inputs.copy_metadata(stream, to_device);
      to_device.finish();
      rank.runtime.launch(first.step->ranks[rank.index].exec, stream);
      host_us[static_cast<std::size_t>(rank.index)] += us_since(enqueued);
    });
  }
  drain();
  const double step_us = us_since(begin);
  const double slowest = *std::max_element(host_us.begin(), host_us.end());
  return {.host_us = slowest / static_cast<double>(times),
          .step_us = step_us / static_cast<double>(times)};
}

}  // namespace dcp
