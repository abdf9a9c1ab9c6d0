// A scenario as read from its file: what scenarios/README.md documents, with defaults filled in.
// Knows nothing of the engine. Every part that can be wrong later keeps its place in the file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/direct_spec.hpp"
#include "core/dtype.hpp"
#include "core/error.hpp"
#include "core/handles.hpp"
#include "core/kv_gather_spec.hpp"
#include "core/lse.hpp"
#include "core/packed_rows.hpp"

namespace dcp {

enum class Attention : std::uint8_t { kMla, kGqa };

// Geometry of the attention layers. Head counts are those of the whole model.
struct Model {
  std::string preset;  // "" for a hand-given model
  Attention attention = Attention::kMla;
  int num_heads = 0;
  int num_kv_heads = 1;  // GQA only
  int kv_lora_rank = 0;  // MLA only: value dim, and the first part of a key
  int rope_dim = 0;      // MLA only: the rest of a key
  int head_dim = 0;      // GQA only: query, key and value dim
  double softmax_scale = 0;
  std::optional<int> padded_num_heads;  // heads that storage of the DCP group is padded to

  int qk_head_dim() const {
    return attention == Attention::kMla ? kv_lora_rank + rope_dim : head_dim;
  }
  int v_head_dim() const { return attention == Attention::kMla ? kv_lora_rank : head_dim; }
};

enum class QueryMode : std::uint8_t { kAllGather, kDirect, kReplicate };
enum class AttentionSplit : std::uint8_t { kNone, kContextThenNew };
enum class ReduceDtype : std::uint8_t { kSame, kFp32 };
enum class CommStream : std::uint8_t { kSeparate, kSame };
enum class DataKind : std::uint8_t { kRandom, kMean, kGiven };
enum class GraphPool : std::uint8_t { kPrivate, kShared };
enum class WorkspacePolicy : std::uint8_t { kGraphPool, kFixed, kGrowable };

// A tensor written out in the file: one value for all elements (empty shape) or nested lists.
struct GivenTensor {
  std::vector<std::int64_t> shape;
  std::vector<double> values;  // row-major; one value where shape is empty
  Place place;
};

struct DataSpec {
  DataKind kind = DataKind::kRandom;
  std::uint64_t seed = 7;
  std::vector<GivenTensor> given_lse;  // per rank: scalar or [T][H]
  std::vector<GivenTensor> given_out;  // per rank: scalar or [T][H][D]
};

// The workspace size rule: min(max_batched_tokens, max(max_seqs * max(1 + spec, decode_query_len),
// largest size)).
struct SizeRule {
  std::int64_t max_batched_tokens = 0;
  std::int64_t max_seqs = 0;
  std::int64_t spec = 0;
  std::int64_t decode_query_len = 1;
};

struct GraphSpec {
  std::optional<std::vector<std::int64_t>>
      capture_sizes;                // rows, in capture order; absent: batches
  bool capture_sizes_vllm = false;  // `capture_sizes: vllm`
  int ubatches = 1;
  std::optional<std::int64_t> max_num_tokens;  // rows
  std::optional<SizeRule> size_rule;           // `max_num_tokens` given as a map
  GraphPool pool = GraphPool::kPrivate;
  CaptureMode capture_mode = CaptureMode::kThreadLocal;
};

struct WorkspaceSpec {
  WorkspacePolicy policy = WorkspacePolicy::kGraphPool;
  std::map<std::int64_t, std::int64_t> need;  // rows -> bytes
};

struct KvSpec {
  int block_size = 64;                     // tokens per page
  bool is_fp8 = false;                     // kv.dtype: fp8_e4m3; else the scenario's dtype
  std::optional<std::int64_t> num_blocks;  // pages per rank
};

// Lengths are GLOBAL and include this step's query tokens. Not checked for meaning by the reader.
struct Batch {
  std::string name;
  Place place;
  std::vector<std::int64_t> seq_lens;                        // [R]
  std::optional<std::vector<std::int64_t>> query_start_loc;  // [R+1]
  std::optional<std::int64_t> rows;                          // before padding to a captured size
  std::optional<std::vector<std::int64_t>> ubatch_starts;    // first row of each ubatch
  std::optional<std::vector<std::vector<std::int64_t>>> local_seq_lens;  // [N][R]
};

// A buffer as a step names it. Unset fields match when the name is unique without them.
struct BufferRef {
  std::string buffer;
  std::optional<std::string> graph;
  std::optional<int> ubatch;
  std::optional<int> rank;
  std::optional<int> generation;
  std::optional<std::int64_t> row;
};

// A finding that a step expects; unset fields match anything.
struct ExpectedFinding {
  std::string kind;
  std::optional<std::string> graph = {};
  std::optional<std::string> buffer = {};  // of hazards only, as node and ubatch
  std::optional<std::string> node = {};
  std::optional<int> rank = {};
  std::optional<int> ubatch = {};
};

struct Expect {
  std::map<std::int64_t, double> out;  // row -> value of all heads and elements
  std::map<std::int64_t, double> lse;
  std::optional<std::vector<std::int64_t>> empty_rows;  // exactly these rows
  std::vector<ExpectedFinding> hazards;
  std::vector<ExpectedFinding> failures;
  std::optional<std::string> error;  // kind
  std::optional<std::string> same_bits_as;
  std::optional<std::int64_t> eager_rows;
  std::map<std::string, Expect> by_strategy;
};

struct Step;

namespace verb {

struct Capture {
  bool all = false;
  std::vector<std::int64_t> sizes;  // `capture: [8, 4]`
  std::string graph;                // map form; "" = "g<rows>"
  std::optional<std::int64_t> rows;
  std::string batch;
};
struct Replay {
  std::string batch;
  std::string graph;  // "" = chosen by the batch's rows
  std::int64_t times = 1;
  std::string stream;
  bool wait = true;
};
struct Eager {
  std::string batch;
  std::string stream;
  bool wait = true;
};
struct Together {
  std::vector<Step> steps;
};
struct Sync {};
struct Lock {};
struct Grow {
  std::int64_t rows = 0;
};
struct Allocate {
  std::string name;
  std::int64_t size_bytes = 0;
  std::string where = "device";  // device | capture | pool | host_pinned | host
};
struct Free {
  BufferRef buffer;
};
struct Rebind {
  BufferRef buffer;
};
struct Remap {
  BufferRef buffer;
};
struct Poison {
  BufferRef buffer;
};
struct Canary {
  BufferRef buffer;
};
struct CheckCanary {
  BufferRef buffer;
};
enum class StubMode : std::uint8_t { kExact, kPoisonEmpty, kPlusInf, kNanPad, kUntouched };
struct StubAttention {
  StubMode mode = StubMode::kExact;
};
struct Set {
  std::string key;
  std::string value;  // the scalar as written
};
struct Stall {
  std::string at;     // publish | wait | read | combine
  std::string until;  // a step's name
};
struct Skip {
  std::string op;
};
struct DuringCapture {
  std::string call;
  bool other_thread = false;
  std::optional<BufferRef> from;  // of a copy, as below
  std::optional<BufferRef> to;
};
struct Throw {
  std::string at;
};
struct Fork {
  std::string stream;
};
struct Join {
  std::string stream;
};
struct Place {
  int ubatch = 0;
  std::string stream;
};
struct Destroy {
  std::string graph;  // "" = the communicators
};

}  // namespace verb

using Verb =
    std::variant<verb::Capture, verb::Replay, verb::Eager, verb::Together, verb::Sync, verb::Lock,
                 verb::Grow, verb::Allocate, verb::Free, verb::Rebind, verb::Remap, verb::Poison,
                 verb::Canary, verb::CheckCanary, verb::StubAttention, verb::Set, verb::Stall,
                 verb::Skip, verb::DuringCapture, verb::Throw, verb::Fork, verb::Join, verb::Place,
                 verb::Destroy>;

struct Step {
  Place place;
  std::string verb_name;  // as written: "capture", "replay", ...
  Verb verb;
  std::string name;
  std::optional<int> rank;
  std::optional<Expect> expect;
};

struct Only {
  std::vector<std::string> strategies;  // empty: all
  std::string backend;                  // "": all
};

struct Scenario {
  std::string file;
  std::string text;  // the file's bytes
  std::string about;
  int world_size = 0;
  int tensor_parallel_size = 0;
  std::int64_t interleave = 1;
  Model model;
  int layers = 1;
  DType dtype = DType::kBf16;
  LseTag lse;
  std::vector<std::string> strategies = {"a2a"};
  QueryMode query = QueryMode::kAllGather;
  AttentionSplit attention_split = AttentionSplit::kNone;
  std::optional<int> split_kv;  // absent: auto
  ReduceDtype reduce_dtype = ReduceDtype::kSame;
  A2aLayout a2a_layout = A2aLayout::kInterleaved;
  DirectSpec direct;
  std::optional<KvGatherSpec> kv_gather;
  CommStream comm_stream = CommStream::kSeparate;
  bool return_lse = true;
  KvSpec kv;
  DataSpec data;
  GraphSpec graph;
  WorkspaceSpec workspace;
  std::vector<Batch> batches;  // in file order
  std::vector<Step> steps;  // empty: capture every size, then replay every batch, twice, in order
  Only only;
  std::map<std::string, std::string> aliases_used;  // spelling in the file -> the format's name

  // Dotted key of the file ("graph.ubatches", "steps.2.expect.error") -> where its value stands.
  std::map<std::string, Place> places;

  // Query heads of the DCP group after the query gather ("H" in docs/ARCHITECTURE.md).
  // model.num_heads * world_size / tensor_parallel_size, checked for divisibility by the reader.
  int group_num_heads() const {
    return static_cast<int>(std::int64_t{model.num_heads} * world_size / tensor_parallel_size);
  }

  // KV heads of the group: max(1, model.num_kv_heads * world_size / tensor_parallel_size), of which
  // every rank holds all; 1 for MLA. A fraction above 1 is refused by the engine's plan.
  int group_num_kv_heads() const {
    const std::int64_t heads = std::int64_t{model.num_kv_heads} * world_size / tensor_parallel_size;
    return model.attention == Attention::kMla || heads < 1 ? 1 : static_cast<int>(heads);
  }

  // Elements that the cache holds of a token: MLA its key, whose first part is the value; GQA
  // [2, KV heads, head_dim], keys before values.
  int kv_row_dim() const {
    return model.attention == Attention::kMla ? model.qk_head_dim()
                                              : 2 * group_num_kv_heads() * model.head_dim;
  }

  DType kv_dtype() const { return kv.is_fp8 ? DType::kFp8E4m3 : dtype; }  // of the cache
};

}  // namespace dcp
