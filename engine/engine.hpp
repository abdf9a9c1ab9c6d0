// A serving engine's decode loop over all ranks: captures steps into graphs, replays them with new
// batches, runs eager steps, and lets the results be read back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/world.hpp"
#include "core/data.hpp"
#include "engine/memory_budget.hpp"
#include "engine/rank_inputs.hpp"

namespace dcp {

// One ubatch of a step on one rank: its sizes and its buffers.
struct UbatchStep {
  StepShape shape;
  BufferSet buffers;
};

// One step on one rank, of a graph or of an eager step.
struct RankStep {
  StepShape shape;  // of all its rows
  std::vector<UbatchStep> ubatches;
  Graph graph;
  GraphExec exec;
};

// A step that was captured, or that ran eagerly: the same step on every rank. A graph's key is its
// rows and their cut into ubatches.
struct EngineStep {
  std::string name;  // "g4", or "eager"
  std::int64_t rows = 0;
  std::vector<Ubatch> ubatches;
  std::vector<RankStep> ranks;
};

// What ran last.
struct StepRun {
  const EngineStep* step = nullptr;
  BatchLayout layout;
  std::int64_t eager_rows = 0;  // rows that had no graph
};

// Values of one layer, decoded: contiguous, without head padding.
struct RankLayerValues {
  std::vector<float> partial_out;  // [T, H, D]
  std::vector<float> partial_lse;  // [T, H]
  std::vector<float> out;          // [T, num_out_heads, D]
  std::vector<float> lse;          // [T, num_out_heads]; empty where no LSE is returned
  std::vector<float> context_out;  // as out and lse; empty unless new tokens are attended to apart
  std::vector<float> context_lse;
  std::vector<float> new_out;
  std::vector<float> new_lse;
  int first_out_head = 0;
  int num_out_heads = 0;
};
struct LayerValues {
  std::vector<float> query;  // [T, H, Dq] as attention read it, on rank 0
  std::vector<RankLayerValues> ranks;
};

// A tensor as the engine stored it, bit for bit, without head padding.
struct TensorBits {
  DType dtype = DType::kFp32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

// The bits of one layer.
struct RankLayerBits {
  TensorBits partial_out;         // [T, H, D]
  TensorBits partial_lse;         // [T, H]
  TensorBits out;                 // [T, h or H, D]
  std::optional<TensorBits> lse;  // [T, h or H]; nothing where no LSE is returned
};
struct LayerBits {
  TensorBits query;  // [T, H, Dq] as attention read it, on rank 0
  std::vector<RankLayerBits> ranks;
};

// A workspace buffer of a step that ran.
struct WorkspaceRef {
  const StepRun& run;
  int rank;
  int ubatch;
  std::string_view name;
};

class Engine {
 public:
  // Allocates every persistent buffer. StepError heads_not_divisible, capacity.
  Engine(const Scenario& scenario, const Strategy& strategy, World& world);
  ~Engine();

  // Captures the step of `rows` rows on every rank; a graph of that name is destroyed first. With
  // no batch, what the metadata buffers hold meanwhile is make_capture_batch(rows).
  void capture(const std::string& name, std::int64_t rows, const Batch* batch = nullptr);

  // Loads the batch, launches the graph `times` times and drains. Without a name: the smallest
  // graph that holds the batch's rows and has its ubatches; where there is none the step runs
  // eagerly. A graph that is named keeps its own cut.
  // StepError no_such_graph, capacity and those of make_batch_layout; Failure from the drain.
  StepRun replay(const Batch& batch, const std::string& graph, std::int64_t times);
  StepRun eager(const Batch& batch);

  // StepError no_such_graph.
  void destroy(const std::string& graph);
  void destroy_communicators() { world_.destroy_communicators(); }

  void set_stub(verb::StubMode mode);

  // Fills the buffer, or one row of every layer of it, with NaN, on one rank or on all.
  // StepError no_such_buffer.
  void poison(const BufferRef& ref);

  LayerValues read_layer(const StepRun& run, int layer) const;

  LayerBits read_layer_bits(const StepRun& run, int layer) const;

  // What a rank's workspace buffer holds of the layer that used it last; nothing where the step has
  // none of that name, or one without a stated shape.
  std::optional<TensorBits> read_workspace(const WorkspaceRef& ref) const;

  const Capacity& capacity() const { return capacity_; }
  const InputData& data() const { return data_; }

 private:
  struct RankState;

  void each_rank(const std::function<void(Rank&, RankState&)>& program);
  RankStep make_rank_step(Rank& rank, const RankState& state, const EngineStep& step);
  void enqueue_step(Rank& rank, const RankState& state, const EngineStep& step,
                    const RankStep& mine);
  BatchLayout lay_out(const Batch& batch) const;
  void require_memory_for_checks(std::int64_t rows) const;
  void load_metadata(const BatchLayout& layout, const std::vector<Ubatch>& ubatches);
  void load(const BatchLayout& layout, const std::vector<Ubatch>& ubatches);
  void poison_results(const EngineStep& step);
  void release_eager_step();
  EngineStep* find_graph(const std::string& name);
  EngineStep* graph_for(const Batch& batch, std::int64_t rows);
  StepRun run_eagerly(const Batch& batch, const BatchLayout& layout);
  void destroy(EngineStep& step);
  TensorBits read_query_bits(Rank& rank, const StepRun& run, int layer) const;
  Buffer find_buffer(const BufferRef& ref, int rank, StepShape& shape) const;
  void read_ubatch(Rank& rank, const UbatchStep& step, int layer, RankLayerValues& values) const;

  const Scenario& scenario_;
  const Strategy& strategy_;
  World& world_;
  InputData data_;
  Capacity capacity_;
  StepPlan plan_;
  MemoryBudget budget_;
  verb::StubMode stub_ = verb::StubMode::kExact;
  std::vector<std::unique_ptr<RankState>> ranks_;
  std::vector<std::unique_ptr<EngineStep>> graphs_;  // in capture order
  std::unique_ptr<EngineStep> eager_;                // kept until the next step: its results
};

}  // namespace dcp
