// What a run found, as plain data: what the text and JSON reports print.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "audit/finding.hpp"
#include "core/error.hpp"
#include "reference/compare.hpp"

namespace dcp {

enum class Status : std::uint8_t { kPass, kFail, kError };  // kError: it could not be run

std::string_view name(Status status);

// One level of the check against the reference, over all layers and ranks of a step.
struct LevelReport {
  // partial | combine | step; with attention_split also new | merge, with kv_gather kv_gather
  std::string level;
  Comparison comparison;
};

struct FailureReport {
  std::string kind;
  int rank;  // -1: no single rank
  std::string why;
};

struct ErrorReport {
  std::string kind;
  std::string why;
};

// How a rank took part in a computing step.
struct RankReport {
  std::vector<std::int64_t> seq_lens;    // [R] local keys of each request
  std::vector<std::int64_t> empty_rows;  // rows without a local key, padding included
};

struct StepReport {
  int index = 0;
  Place place;  // of the step in its file
  std::string name;
  std::string verb;
  std::string what;  // batch, graph or buffer of the step, for people
  Status status = Status::kPass;
  std::string graph;      // the graph that was launched, "" for an eager step
  std::int64_t rows = 0;  // rows that ran, padding included
  std::int64_t eager_rows = 0;
  std::int64_t fallback_rows = 0;  // that another strategy combined: the exchange has no room
  std::size_t egress_bytes = 0;    // of one rank, all layers; 0: the step computed nothing
  std::size_t op_nodes = 0;        // ops in rank 0's graph; 0 for an eager step
  std::optional<std::size_t> kernel_nodes;  // kernels that they became; only the GPU has them
  std::int64_t launches = 0;                // of the graph, on each rank
  std::vector<LevelReport> checks;
  std::vector<audit::Finding> hazards;
  bool is_tainted = false;  // by a hazard, its own or one that another step or process has
  std::vector<FailureReport> failures;
  std::optional<ErrorReport> error;
  std::vector<RankReport> ranks;
  std::vector<std::string> problems;  // what fell short, one line each; empty: all as expected
  double seconds = 0;
};

// Which numbers of rows have a graph when the scenario ends. Others are padded up to the next, or
// run eagerly.
struct Coverage {
  std::vector<std::int64_t> graph_sizes;    // ascending
  std::int64_t max_num_tokens = 0;          // rows that a step may have
  std::map<std::int64_t, int> ran_eagerly;  // rows of replays that found no graph -> such steps

  // First number of rows that no graph holds, up to max_num_tokens; nothing where all have one.
  std::optional<std::int64_t> first_uncovered() const {
    const std::int64_t first = graph_sizes.empty() ? 1 : graph_sizes.back() + 1;
    if (first > max_num_tokens) return std::nullopt;
    return first;
  }
};

struct ScenarioReport {
  std::string file;
  std::string strategy;
  Status status = Status::kPass;
  std::string bad_input;  // why it could not be run, with the place
  std::vector<StepReport> steps;
  Coverage coverage;
  std::string schedule;  // every decision as text; empty where no schedule was asked for
  double seconds = 0;
};

}  // namespace dcp
