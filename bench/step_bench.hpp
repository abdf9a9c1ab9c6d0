// Times whole decode steps on a GPU: captured, replayed, and split by op.
//
//   capture   host time to capture and instantiate the step on all ranks, the middle one of three;
//             everything was loaded by an earlier capture
//   replay    host time between two replays, of the slowest rank: the sum of the next three; the
//             GPU may still be busy with the replay before
//   stage     of it: the batch's metadata is worked out and written to pinned memory
//   copy      of it: the copies of the metadata are enqueued, a call of the driver for each
//   launch    of it: the graph is launched
//   step      time from one replay to the next of a row of replays
//   ops       time between event nodes around each op of a rank, summed by name. A collective's
//             includes that it waits for its peers, which share the GPU.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace dcp {

struct StepCase {
  std::string model;  // a preset
  int world_size;
  int layers;
  std::int64_t seq_len;  // of the first of eight one-token requests; each next one is 1 shorter
};

struct StepRecord {
  std::string label;          // "step-kimi-k3-N4-L4-a2a"
  std::size_t num_nodes = 0;  // of a rank's graph
  double capture_ms = 0;
  double replay_us = 0;
  double stage_us = 0;
  double copy_us = 0;
  double launch_us = 0;
  double step_us = 0;
  std::map<std::string, double> op_us;  // of rank 0
};

struct StepBenchOptions {
  std::vector<StepCase> cases;
  std::vector<std::string> strategies;
  std::function<bool(const std::string& label)> wants;
  std::function<void(const StepRecord&)> report;  // called for each, as it is measured
};

std::vector<StepCase> default_step_cases();

// Ranks share a GPU. StepError backend_unavailable in a build without CUDA.
void bench_steps(const StepBenchOptions& options);

}  // namespace dcp
