// What a scenario plans, found without running it: who owns which token, which graph each batch
// uses, and what each strategy allocates, launches and sends. Plain data for text and JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/legality.hpp"
#include "core/scenario.hpp"
#include "engine/batch_layout.hpp"
#include "engine/ubatches.hpp"
#include "harness/report.hpp"

namespace dcp {

struct ExplainedRow {
  std::int64_t request = -1;            // -1: padding, by the batch or up to the graph's size
  std::int64_t position = 0;            // of its token in the request
  std::vector<std::int64_t> keys = {};  // [N] that it attends to on each rank
};

struct ExplainedBatch {
  std::string name;
  std::optional<ErrorReport> error = {};  // then there is nothing else
  BatchLayout layout = {};
  std::vector<ExplainedRow> rows = {};  // the batch's own, without those of the graph
};

// Which step runs which batch in which graph.
struct ExplainedStep {
  int index = 0;
  std::string verb;
  std::string what;
  std::string batch = {};  // "": it runs none
  std::string graph = {};  // "" with a batch: it runs eagerly
  std::int64_t rows = 0;   // padding included
  std::vector<Ubatch> ubatches = {};
  std::optional<ErrorReport> error = {};
};

struct ExplainedBuffer {
  std::string name;
  std::vector<std::int64_t> shape;  // empty: bytes without a stated form
  std::string dtype;
  std::size_t size_bytes;
  std::string lives;  // how long, in words
  int num = 1;        // one for each ubatch
};

// Calls of one kind inside a graph.
struct ExplainedOp {
  std::string name;
  std::string stream;
  std::int64_t count = 0;
  std::size_t egress_bytes = 0;  // that one rank sends in all of them; collectives and gathers
};

// Exchanges of a kind by stores to the peers' memory. Each advances the epoch by one, and its
// flags, and rows where they have slots, lie in the slot of its epoch.
struct ExplainedExchange {
  std::string epoch;        // the buffer that counts
  std::int64_t per_replay;  // of each ubatch
  int num_slots;
};

struct ExplainedGraph {
  std::string name;
  std::int64_t rows = 0;
  std::vector<Ubatch> ubatches;
  std::vector<ExplainedBuffer> buffers = {};  // of one rank
  std::vector<ExplainedOp> ops = {};          // in the order in which they first appear
  std::vector<ExplainedExchange> exchanges = {};
  std::size_t num_edges = 0;
  std::size_t query_bytes = 0;    // one rank sends, per step
  std::size_t combine_bytes = 0;  // the same
  std::size_t kv_bytes = 0;       // of kv_gather
};

// All of rank 0: what a rank has differs from another's in addresses only.
struct ExplainedStrategy {
  std::string_view name;
  std::string_view about;
  bool keeps_all_heads = false;
  std::optional<ErrorReport> error = {};  // then there is nothing else
  std::vector<ExplainedBuffer> inputs = {};
  std::vector<ExplainedGraph> graphs = {};  // each that a step captures, as it is captured last
  std::vector<ExplainedStep> steps = {};
};

struct Explanation {
  std::int64_t max_num_tokens = 0;
  std::string capacity_rule;  // how that came about
  std::int64_t num_blocks = 0;
  std::vector<LegalityVerdict> legality;
  std::vector<ExplainedBatch> batches;
  std::vector<ExplainedStrategy> strategies;
};

// `strategies` are registered names. Never throws StepError: what is refused says so where it is.
Explanation explain(const Scenario& scenario, const std::vector<std::string>& strategies);

}  // namespace dcp
