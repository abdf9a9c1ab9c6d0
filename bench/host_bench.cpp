// Times the host backend: decode steps with and without their checks, captures, the reader, and
// the corpus.
//
// Rates are per second of CPU time of all threads: what one core does. Steps are replays of a
// captured graph; a checked one is what `dcpsim run` does for a step.
//
//   dcpsim_bench --benchmark_filter=tiny
#include <benchmark/benchmark.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "comm/make_world.hpp"
#include "core/scenario_reader.hpp"
#include "engine/engine.hpp"
#include "harness/audit/run_audit.hpp"
#include "harness/step_runner.hpp"
#include "strategies/registry.hpp"

namespace dcp {
namespace {

namespace fs = std::filesystem;

const std::string kTiny = R"(
world_size: 4
model: tiny
graph: {capture_sizes: [4]}
batches:
  few: {seq_lens: [9, 5, 14]}
)";

const std::string kKimiK3 = R"(
world_size: 8
model: kimi-k3
layers: 1
graph: {capture_sizes: [8]}
batches:
  long: {seq_lens: [4096, 4095, 4094, 4093, 4092, 4091, 4090, 4089]}
)";

const std::string kManyLayers = R"(
world_size: 8
model: tiny
layers: 61
graph: {capture_sizes: [8]}
batches:
  few: {seq_lens: [9, 5, 14]}
)";

const Strategy& strategy_of(const std::string& name) { return *find_strategy(name); }

std::vector<std::string> corpus_files() {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(DCPSIM_SOURCE_DIR "/scenarios")) {
    const fs::path& path = entry.path();
    if (path.extension() != ".yaml" || path.parent_path().filename() == "rejected") continue;
    files.push_back(path.string());
  }
  return files;
}

void checked_step(benchmark::State& state, const std::string& text, const std::string& strategy) {
  const Scenario scenario = parse_scenario("bench", text);
  const std::vector<Step> steps = default_steps(scenario);
  StepRunner runner(scenario, strategy_of(strategy), {.seed = 1});
  runner.run(steps[0], 0);  // capture
  for ([[maybe_unused]] auto iteration : state) {
    runner.run(steps[1], 1);
    if (runner.last_report().status != Status::kPass) state.SkipWithError("the step failed");
  }
  state.SetItemsProcessed(state.iterations());
}

void step(benchmark::State& state, const std::string& text, const std::string& strategy) {
  const Scenario scenario = parse_scenario("bench", text);
  const auto world = make_world({.world_size = scenario.world_size, .seed = 1});
  Engine engine(scenario, strategy_of(strategy), *world);
  const Batch& batch = scenario.batches.front();
  const std::int64_t rows = scenario.graph.capture_sizes->front();
  engine.capture("g", rows);
  for ([[maybe_unused]] auto iteration : state) engine.replay(batch, "g", 1);
  state.SetItemsProcessed(state.iterations());
}

void capture(benchmark::State& state, const std::string& text, const std::string& strategy) {
  const Scenario scenario = parse_scenario("bench", text);
  const auto world = make_world({.world_size = scenario.world_size, .seed = 1});
  Engine engine(scenario, strategy_of(strategy), *world);
  const std::int64_t rows = scenario.graph.capture_sizes->front();
  for ([[maybe_unused]] auto iteration : state) engine.capture("g", rows);
  state.SetItemsProcessed(state.iterations());
}

// What the audit adds to the capture of one graph.
void audit_capture(benchmark::State& state, const std::string& text, const std::string& strategy) {
  const Scenario scenario = parse_scenario("bench", text);
  const auto world = make_world({.world_size = scenario.world_size, .seed = 1});
  Engine engine(scenario, strategy_of(strategy), *world);
  engine.capture("g", scenario.graph.capture_sizes->front());
  for ([[maybe_unused]] auto iteration : state) {
    RunAudit audit(*world);
    if (!audit.look(engine, 0).empty()) state.SkipWithError("the capture has hazards");
  }
  state.SetItemsProcessed(state.iterations());
}

// Every file of the corpus is read; nothing runs.
void reader(benchmark::State& state) {
  std::int64_t files = 0;
  for ([[maybe_unused]] auto iteration : state) {
    files = 0;
    for (const std::string& path : corpus_files()) {
      benchmark::DoNotOptimize(read_scenario(path));
      ++files;
    }
  }
  state.SetItemsProcessed(state.iterations() * files);
}

// Every file and strategy of the corpus, one after the other.
void corpus(benchmark::State& state) {
  std::vector<Scenario> scenarios;
  for (const std::string& path : corpus_files()) scenarios.push_back(read_scenario(path));
  for ([[maybe_unused]] auto iteration : state) {
    for (const Scenario& scenario : scenarios) {
      for (const std::string& name : scenario.strategies) {
        benchmark::DoNotOptimize(run_scenario(scenario, strategy_of(name), {.seed = 1}));
      }
    }
  }
  state.counters["files"] = static_cast<double>(scenarios.size());
}

void add(const std::string& name, auto function, const std::string& text) {
  for (const Strategy* strategy : all_strategies()) {
    const std::string by = std::string(strategy->name());
    benchmark::RegisterBenchmark((name + "/" + by).c_str(),
                                 [=](benchmark::State& state) { function(state, text, by); })
        ->MeasureProcessCPUTime()
        ->Unit(benchmark::kMillisecond);
  }
}

}  // namespace
}  // namespace dcp

int main(int count, char** arguments) {
  benchmark::Initialize(&count, arguments);
  if (benchmark::ReportUnrecognizedArguments(count, arguments)) return 2;
  dcp::add("tiny_checked", dcp::checked_step, dcp::kTiny);
  dcp::add("tiny", dcp::step, dcp::kTiny);
  dcp::add("kimi_k3_checked", dcp::checked_step, dcp::kKimiK3);
  dcp::add("kimi_k3", dcp::step, dcp::kKimiK3);
  dcp::add("tiny_capture", dcp::capture, dcp::kTiny);
  dcp::add("kimi_k3_capture", dcp::capture, dcp::kKimiK3);
  dcp::add("audit_61_layers", dcp::audit_capture, dcp::kManyLayers);
  benchmark::RegisterBenchmark("reader", dcp::reader)->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("corpus", dcp::corpus)
      ->MeasureProcessCPUTime()
      ->Unit(benchmark::kMillisecond);
  benchmark::RunSpecifiedBenchmarks();
}
