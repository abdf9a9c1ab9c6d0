// A serving engine's decode loop over all ranks: captures steps into graphs, replays them with new
// batches, runs eager steps, and lets the results be read back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "comm/world.hpp"
#include "core/data.hpp"
#include "engine/engine_view.hpp"
#include "engine/memory_budget.hpp"
#include "engine/rank_inputs.hpp"
#include "engine/upload.hpp"
#include "engine/workspace.hpp"

namespace dcp {

struct UbatchState;

// One ubatch of a step on one rank: its sizes and its buffers.
struct UbatchStep {
  StepShape shape;
  BufferSet buffers;
  std::vector<Buffer> owned = {};  // those that were allocated for this step
};

// One step on one rank, of a graph or of an eager step.
struct RankStep {
  StepShape shape;  // of all its rows
  std::vector<UbatchStep> ubatches;
  Graph graph;
  GraphExec exec;
  std::size_t num_nodes = 0;  // of the graph, as it is recorded
};

// A step that was captured, or that ran eagerly: the same step on every rank. A graph's key is its
// rows and their cut into ubatches.
struct EngineStep {
  std::string name;  // "g4", or "eager"
  std::int64_t rows = 0;
  std::vector<Ubatch> ubatches;
  std::vector<RankStep> ranks;

  // Bounds that the capture froze; a batch beyond them is refused.
  std::optional<std::int64_t> max_requests = {};
  std::optional<std::int64_t> max_seq_len = {};
};

// A step to run.
struct StepRequest {
  const Batch& batch;
  std::string graph = {};  // "": the smallest that holds the batch; not for eager steps
  std::int64_t times = 1;
  std::vector<int> ranks = {};  // that take part; empty: all
  std::string stream = {};      // that everything goes to; "": the engine's own
  bool wait = true;             // false: return when all is enqueued
};

// A step that ran, or that is enqueued.
struct StepRun {
  const EngineStep* step = nullptr;
  BatchLayout layout = {};
  std::int64_t eager_rows = 0;       // rows that had no graph
  std::vector<int> ranks = {};       // that took part, ascending
  bool waits_at_once = true;         // its exchanges were free to: PeerAccess::may_wait_at_once
  std::vector<Buffer> queries = {};  // per rank, with `copy`: layer 0's queries as they were

  // Of a step that is not waited for: what it leaves, copied by the stream right after it, because
  // a later step may run in the same buffers before anyone looks. `step` is this one then.
  std::unique_ptr<EngineStep> copy = nullptr;
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
  std::vector<float> query;  // [T, H, Dq] as attention read it, on the first rank that took part;
                             // of query: direct what each rank had of it
  std::vector<RankLayerValues> ranks;  // [N]; without heads for those that did not take part
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
  TensorBits query;  // [T, H, Dq] as in LayerValues
  std::vector<RankLayerBits> ranks;
};

// What a rank's thread does between two replays, in us.
struct HostTime {
  double stage_us = 0;   // the batch's metadata is worked out and written to the staging
  double copy_us = 0;    // its copies are enqueued
  double launch_us = 0;  // the graph is launched

  double sum_us() const { return stage_us + copy_us + launch_us; }
};

// Means over replays of one graph that follow each other.
struct Pace {
  HostTime host;   // of the slowest rank
  double step_us;  // from one step to the next, of all ranks
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

  // Rows of a capture that names `rows`, or else a batch: the batch's rows.
  std::int64_t rows_to_capture(std::optional<std::int64_t> rows, const Batch* batch) const;

  // The graph of this name, if it holds other rows or another cut than such a capture would: to
  // replace it would lose a graph that no later capture brings back. StepError as capture().
  const EngineStep* other_graph(const std::string& name, std::int64_t rows, const Batch* batch);

  // Loads the batch, launches the graph `times` times and drains. Without a name: the smallest
  // graph that holds the batch's rows and has its ubatches; where there is none the step runs
  // eagerly. A graph that is named keeps its own cut.
  // StepError no_such_graph, capacity and those of make_batch_layout; Failure from the drain.
  // Without `wait` nothing is drained; the result may be read once drain() has returned.
  StepRun replay(const StepRequest& request);
  StepRun eager(const StepRequest& request);
  StepRun replay(const Batch& batch, const std::string& graph, std::int64_t times) {
    return replay(StepRequest{.batch = batch, .graph = graph, .times = times});
  }
  StepRun eager(const Batch& batch) { return eager(StepRequest{.batch = batch}); }

  // Replays the graph `times` times in a row, the batch's metadata copied up before each launch,
  // and waits for the last one only. Nothing may be pending. StepError and Failure as replay().
  Pace pace(const Batch& batch, const std::string& graph, std::int64_t times);

  // Runs all that is enqueued. Failure as World::drain.
  void drain();
  bool is_idle() const { return !pending_; }

  // Gives back the copies of a run that was not waited for. Only once it is drained.
  void release(StepRun& run);

  // StepError no_such_graph, graph_in_flight where a launch of it was not drained.
  void destroy(const std::string& graph);
  void destroy_communicators();  // once all is drained

  void set_stub(verb::StubMode mode);

  // On memory, on one rank or on all. StepError no_such_buffer. The first two fill the buffer, or
  // one row of every layer of it, once all is drained: with NaN, with a mark. check_canary throws
  // Failure canary_damaged where a mark is not what it was.
  void poison(const BufferRef& ref);
  void canary(const BufferRef& ref);
  void check_canary(const BufferRef& ref);
  void allocate(const verb::Allocate& what, std::optional<int> rank);
  void free(const BufferRef& ref);
  void rebind(const BufferRef& ref);
  void remap(const BufferRef& ref);

  // The workspace may not grow from here on: StepError workspace_locked.
  void lock_workspace() { workspace_locked_ = true; }
  // Makes room for steps of `rows` rows now. StepError workspace_locked, capacity.
  void grow_workspace(std::int64_t rows);

  // Orders between the engine's compute stream and another: now, and in every step from here on.
  void fork(const std::string& stream, std::optional<int> rank);
  void join(const std::string& stream, std::optional<int> rank);
  void place(int ubatch, const std::string& stream, std::optional<int> rank);

  // What happens on a rank inside the next capture: when it begins, or before it ends.
  struct CaptureAction {
    std::optional<int> rank;  // absent: on all
    bool at_end;
    std::function<void(Runtime&, Stream)> run;  // with the capturing stream
  };
  void during_next_capture(CaptureAction action) { actions_.push_back(std::move(action)); }
  bool awaits_capture() const { return !actions_.empty(); }
  // A call by name, as CUDA spells it. std::invalid_argument for a name that is not known.
  void call_during_next_capture(const verb::DuringCapture& what, std::optional<int> rank);

  // One dynamic value. StepError ubatch_out_of_range, capacity, and for the epoch graph_in_flight
  // and step_divergence; std::invalid_argument for a value that the key does not take.
  void set(const verb::Set& what, std::optional<int> rank);

  LayerValues read_layer(const StepRun& run, int layer) const;

  LayerBits read_layer_bits(const StepRun& run, int layer) const;

  // What kv_gather left on each rank of the layer: ubatch after ubatch [N * T, Dkv]. Nothing on
  // ranks that did not take part.
  std::vector<std::vector<std::byte>> read_gathered_kv(const StepRun& run, int layer) const;

  // What a rank's workspace buffer holds of the layer that used it last; nothing where the step has
  // none of that name, or one without a stated shape.
  std::optional<TensorBits> read_workspace(const WorkspaceRef& ref) const;

  // The graph that a replay launches; null: it would run eagerly. StepError as replay().
  const EngineStep* graph_of(const StepRequest& request);

  // Buffers that the next step on the rank would use, and those that steps allocated.
  std::vector<NamedBuffer> buffers_of(int rank) const;

  // Buffers that a step uses besides those.
  std::vector<NamedBuffer> buffers_of(const EngineStep& step, const Rank& rank) const;

  // What a step enqueues on a rank, recorded and not run: the ops of the plan, whatever became of
  // them when the step was captured.
  std::vector<PlannedOp> planned_ops(const EngineStep& step, const Rank& rank);

  // What the rank's metadata buffers should hold of the batch of a run, and what they hold, by
  // name; only once all is drained.
  std::vector<MetadataArray> metadata_of(const StepRun& run, Rank& rank) const;

  // Whether the next batch goes to the device in another order than that of the launch's stream.
  bool loads_elsewhere() const { return odd_.load_stream.has_value(); }

  const Capacity& capacity() const { return capacity_; }
  const StepPlan& plan() const { return plan_; }
  const std::vector<std::unique_ptr<EngineStep>>& graphs() const { return graphs_; }
  std::vector<std::int64_t> graph_sizes() const;  // rows of the graphs, ascending, none twice
  const InputData& data() const { return data_; }

 private:
  struct RankState;

  struct FoundBuffer {
    Buffer buffer;
    StepShape shape;
    bool is_part;  // of the workspace
    std::function<void(const Buffer&)> replace;
  };
  // Bytes that must stay as they are.
  struct Mark {
    int rank;
    std::byte* data;
    std::size_t size_bytes;
  };

  void each_rank(const std::function<void(Rank&, RankState&)>& program);
  // What `set` bends in the next step that is captured, eager, or, where it says so, replayed.
  struct Oddities {
    std::optional<int> workspace_ubatch;       // whose workspace every ubatch uses
    std::optional<std::int32_t> num_requests;  // passed by value
    std::optional<std::int64_t> max_seq_len;   // that the capture is made for
    LaneEdge dropped_edge = LaneEdge::kNone;
    std::optional<std::string> load_stream;  // that a replay's metadata goes up on
  };

  // What a rank enqueues: its part of the step, in `stream` ("": its own), from `mine` while the
  // step is not complete.
  struct StepLanes {
    const EngineStep& step;
    const std::string& stream;
    const RankStep* mine = nullptr;
  };

  static std::size_t claimed_by(const RankState& state, std::size_t ubatch);
  RankStep make_rank_step(Rank& rank, const RankState& state, const EngineStep& step);
  void enqueue_step(Rank& rank, RankState& state, const StepLanes& to, const Oddities& odd);
  // As each_rank, for the ranks of a run.
  void each_rank(const std::vector<int>& ranks,
                 const std::function<void(Rank&, RankState&)>& program);
  Upload upload(Rank& rank, Stream stream) const;
  BatchLayout lay_out(const Batch& batch) const;
  void require_memory_for_checks(std::int64_t rows) const;
  void load_metadata(const StepRun& run, const std::string& stream);
  void load(const StepRun& run, const std::string& stream, const std::string& metadata_stream);
  void poison_results(const StepRun& run, const std::string& stream);
  void take_pending(const StepRequest& request, const EngineStep& step, const BatchLayout& layout);
  void launch(const StepRun& run, const StepRequest& request);
  void copy_results(StepRun& run, const std::string& stream);
  void release_buffers(EngineStep& step);
  void release_eager_step();
  EngineStep* find_graph(const std::string& name);
  EngineStep* graph_for(const Batch& batch, std::int64_t rows);
  StepRun run_eagerly(const StepRequest& request, BatchLayout layout);
  void destroy(EngineStep& step);
  StepInputs inputs_of(const StepRun& run, int rank, std::size_t ubatch) const;
  bool has_query_parts(const StepRun& run) const;
  bool reads_query_of(const StepRun& run, int rank) const;
  TensorBits read_query_part(Rank& rank, const StepRun& run, int layer) const;
  TensorBits join_query(const StepRun& run, std::vector<TensorBits> parts) const;
  void allocate_exchanges();
  // Epochs and flags of all ranks as after an exchange of that epoch. While nothing is pending.
  void begin_exchanges(std::uint32_t epoch);
  std::string describe_exchanges() const;
  void poison_slots(const StepRun& run);
  FoundBuffer find_buffer(const BufferRef& ref, Rank& rank);
  void rebind_workspace(RankState& state, UbatchState& ubatch, const std::string& name,
                        const Buffer& fresh);
  // As each_rank, on one rank or on all, one after the other: for programs that change what the
  // engine shares.
  void in_turn(std::optional<int> rank, const std::function<void(Rank&, RankState&)>& program);
  std::vector<Mark> rows_of(const BufferRef& ref, Rank& rank);
  void fill(const BufferRef& ref, std::uint32_t word, std::vector<Mark>* marks);
  void grow_for(const EngineStep& step, const std::vector<int>& ranks);
  void take_workspace(const std::vector<int>& ranks, std::size_t ubatch, const WorkspaceNeed& need);
  void act(std::vector<CaptureAction>& actions, bool at_end, Rank& rank, Stream origin);
  void require_lse_tag() const;
  void copy_during_next_capture(const verb::DuringCapture& what, std::optional<int> rank);
  bool set_odd(const verb::Set& what);  // false: the key is another's
  void set_epoch(const verb::Set& what, std::optional<int> rank);
  void read_ubatch(Rank& rank, const UbatchStep& step, int layer, RankLayerValues& values) const;

  const Scenario& scenario_;
  const Strategy& strategy_;
  World& world_;
  std::mutex turn_;
  InputData data_;
  Capacity capacity_;
  StepPlan plan_;
  BufferPlan exchanges_;  // of a ubatch: its symmetric buffers
  MemoryBudget budget_;
  verb::StubMode stub_ = verb::StubMode::kExact;
  std::vector<std::unique_ptr<RankState>> ranks_;
  std::vector<std::unique_ptr<EngineStep>> graphs_;  // in capture order
  std::unique_ptr<EngineStep> eager_;                // kept until the next step: its results
  std::set<const EngineStep*> in_flight_;            // launched since the last drain
  bool pending_ = false;                             // something is enqueued and not drained
  std::int64_t pending_launches_ = 0;
  bool workspace_locked_ = false;
  LseTag handed_lse_;                   // what attention hands over
  std::vector<CaptureAction> actions_;  // inside the next capture

  Oddities odd_;
  std::vector<Mark> marks_;
  std::set<std::pair<int, std::uint32_t>> freed_;  // rank, buffer
};

}  // namespace dcp
