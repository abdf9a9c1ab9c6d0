#include "bench/step_bench.hpp"

#include <algorithm>
#include <chrono>
#include <memory>

#include "comm/make_world.hpp"
#include "core/scenario_reader.hpp"
#include "engine/engine.hpp"
#include "runtime/cuda/cuda_runtime.hpp"
#include "strategies/registry.hpp"

namespace dcp {

namespace {

constexpr int kReplays = 50;
constexpr std::int64_t kRequests = 8;

Scenario scenario_of(const StepCase& test) {
  std::string lengths;
  for (std::int64_t r = 0; r < kRequests; ++r) {
    lengths += (r > 0 ? ", " : "") + std::to_string(test.seq_len - r);
  }
  return parse_scenario(
      "bench", "world_size: " + std::to_string(test.world_size) + "\nmodel: " + test.model +
                   "\nlayers: " + std::to_string(test.layers) +
                   "\ngraph: {capture_sizes: [8]}\nbatches:\n  eight: {seq_lens: [" + lengths +
                   "]}\n");
}

double capture_ms(Engine& engine) {
  const auto begin = std::chrono::steady_clock::now();
  engine.capture("g", kRequests);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

// With the events of rank 0 in its graph; what the other ranks do goes on as it was.
std::map<std::string, double> op_times(Engine& engine, World& world, const Batch& batch) {
  OpTimes times;
  const auto time_ops = [&](OpTimes* by) {
    world.each_rank([&](Rank& rank) {
      if (rank.index == 0) dynamic_cast<CudaRuntime&>(rank.runtime).time_ops(by);
    });
  };
  time_ops(&times);
  engine.capture("timed", kRequests);
  time_ops(nullptr);
  engine.pace(batch, "timed", 5);
  std::map<std::string, double> by_op = times.us_by_op();
  engine.destroy("timed");
  return by_op;
}

StepRecord bench_step(const StepCase& test, const std::string& strategy, std::string label) {
  const Scenario scenario = scenario_of(test);
  const auto world =
      make_world({.backend = {.backend = Backend::kCuda}, .world_size = test.world_size});
  Engine engine(scenario, *find_strategy(strategy), *world);
  const Batch& batch = scenario.batches.front();
  engine.capture("first", kRequests);
  double captures[3];
  for (double& ms : captures) ms = capture_ms(engine);
  std::sort(std::begin(captures), std::end(captures));
  std::size_t num_nodes = 0;
  world->each_rank([&](Rank& rank) {
    if (rank.index != 0) return;
    num_nodes = dynamic_cast<CudaRuntime&>(rank.runtime).live_graphs().back()->device.nodes.size();
  });
  engine.pace(batch, "g", 5);
  const Pace pace = engine.pace(batch, "g", kReplays);
  return {.label = std::move(label),
          .num_nodes = num_nodes,
          .capture_ms = captures[1],
          .replay_us = pace.host.sum_us(),
          .stage_us = pace.host.stage_us,
          .copy_us = pace.host.copy_us,
          .launch_us = pace.host.launch_us,
          .step_us = pace.step_us,
          .op_us = op_times(engine, *world, batch)};
}

}  // namespace

void bench_steps(const StepBenchOptions& options) {
  for (const StepCase& test : options.cases) {
    for (const std::string& strategy : options.strategies) {
      std::string label = "step-" + test.model + "-N" + std::to_string(test.world_size) + "-L" +
                          std::to_string(test.layers) + "-" + strategy;
      if (options.wants(label)) options.report(bench_step(test, strategy, std::move(label)));
    }
  }
}

}  // namespace dcp
