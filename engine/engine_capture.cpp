// What steps of a scenario do inside captures, to streams, and to single dynamic values.
#include <algorithm>
#include <charconv>
#include <limits>
#include <stdexcept>

#include "core/error.hpp"
#include "engine/engine_state.hpp"

namespace dcp {

namespace {

struct NamedCall {
  std::string_view name;
  ApiCall call;
};

constexpr NamedCall kCalls[] = {{"cudaStreamSynchronize", ApiCall::kStreamSynchronize},
                                {"cudaStreamQuery", ApiCall::kStreamQuery},
                                {"cudaEventSynchronize", ApiCall::kEventSynchronize},
                                {"cudaEventQuery", ApiCall::kEventQuery},
                                {"cudaDeviceSynchronize", ApiCall::kDeviceSynchronize},
                                {"cudaMalloc", ApiCall::kMalloc},
                                {"cudaFree", ApiCall::kFree},
                                {"cudaMallocHost", ApiCall::kHostMalloc},
                                {"cudaMemcpy", ApiCall::kMemcpy}};

ApiCall call_named(const std::string& name) {
  std::string known;
  for (const NamedCall& each : kCalls) {
    if (each.name == name) return each.call;
    known += (known.empty() ? "" : ", ") + std::string(each.name);
  }
  throw std::invalid_argument("no call of a capture is named '" + name + "': " + known);
}

bool is_of_event(ApiCall call) {
  return call == ApiCall::kEventSynchronize || call == ApiCall::kEventQuery;
}

// A call of another thread fails there; this one hears of it from its next call.
void call_from_other_thread(Runtime& runtime, ApiCall call, int handle) {
  try {
    runtime.call(call, handle, CallingThread::kOther);
  } catch (const ApiError& error) {
    throw StepError("capture_invalidated_by_other_thread",
                    "another thread called " + std::string(error.what()));
  }
}

std::int64_t integer_value(const verb::Set& what) {
  std::int64_t value = 0;
  const char* end = what.value.data() + what.value.size();
  const auto [at, error] = std::from_chars(what.value.data(), end, value);
  if (error != std::errc() || at != end) {
    throw std::invalid_argument("set." + what.key + " must be an integer, not " + what.value);
  }
  return value;
}

std::int64_t value_within(const verb::Set& what, std::int64_t low, std::int64_t high) {
  const std::int64_t value = integer_value(what);
  if (value < low || value >= high) {
    throw StepError("capacity", "set." + what.key + " must be from " + std::to_string(low) +
                                    " to " + std::to_string(high - 1) + ", not " + what.value);
  }
  return value;
}

constexpr std::int64_t kMaxRequests = std::int64_t{1} << 20;

LaneEdge edge_named(const std::string& name) {
  if (name == "fork") return LaneEdge::kFork;
  if (name == "join") return LaneEdge::kJoin;
  if (name == "append") return LaneEdge::kAppend;
  throw std::invalid_argument("set.drop_edge must be fork, join or append, not " + name);
}

std::string tag_text(const LseTag& tag) {
  return std::string(name(tag.dtype)) + " in base " + (tag.base == LseBase::kTwo ? "2" : "e");
}

}  // namespace

void Engine::act(std::vector<CaptureAction>& actions, bool at_end, Rank& rank, Stream origin) {
  for (CaptureAction& action : actions) {
    if (action.at_end != at_end || (action.rank && *action.rank != rank.index)) continue;
    action.run(rank.runtime, origin);
  }
}

// The bytes are read by each launch, from wherever the host had them.
void Engine::copy_during_next_capture(const verb::DuringCapture& what, std::optional<int> rank) {
  in_turn(rank, [&](Rank& each, RankState& state) {
    const Buffer to = find_buffer(*what.to, each).buffer;
    const auto pageable = state.pageable.find(what.from->buffer);
    const bool is_pageable = pageable != state.pageable.end();
    const Buffer from = is_pageable ? Buffer{pageable->second.data(), pageable->second.size(), 0}
                                    : find_buffer(*what.from, each).buffer;
    during_next_capture(
        {.rank = each.index,
         .at_end = false,
         .run = [from, to, is_pageable, name = what.from->buffer](Runtime& runtime, Stream origin) {
           if (is_pageable) {
             throw StepError("capture_pageable_h2d", "a captured copy reads '" + name +
                                                         "', host memory that is not pinned");
           }
           runtime.copy(origin, to.data, from.data, std::min(from.size_bytes, to.size_bytes));
         }});
  });
}

void Engine::call_during_next_capture(const verb::DuringCapture& what, std::optional<int> rank) {
  if (what.to) return copy_during_next_capture(what, rank);
  const ApiCall call = call_named(what.call);
  const auto ranks = rank ? std::vector<int>{*rank} : all_ranks(scenario_);
  for (const int index : ranks) {
    if (!world_.has_rank(index)) continue;
    const int event = ranks_[static_cast<std::size_t>(index)]->outside.id;
    during_next_capture(
        {.rank = index,
         .at_end = false,
         .run = [call, event, other = what.other_thread](Runtime& runtime, Stream origin) {
           const int handle = is_of_event(call) ? event : origin.id;
           if (other) return call_from_other_thread(runtime, call, handle);
           runtime.call(call, handle, CallingThread::kSame);
         }});
  }
}

void Engine::fork(const std::string& stream, std::optional<int> rank) {
  each_rank(rank ? std::vector<int>{*rank} : all_ranks(scenario_), [&](Rank& each, RankState& own) {
    own.forked.insert(stream);
    each.runtime.record(own.ordered, own.stream(each.runtime, ""));
    each.runtime.wait(own.stream(each.runtime, stream), own.ordered);
  });
}

void Engine::join(const std::string& stream, std::optional<int> rank) {
  each_rank(rank ? std::vector<int>{*rank} : all_ranks(scenario_), [&](Rank& each, RankState& own) {
    own.joined.insert(stream);
    each.runtime.record(own.ordered, own.stream(each.runtime, stream));
    each.runtime.wait(own.stream(each.runtime, ""), own.ordered);
  });
}

void Engine::place(int ubatch, const std::string& stream, std::optional<int> rank) {
  if (ubatch >= scenario_.graph.ubatches) {
    throw StepError("ubatch_out_of_range", "ubatch " + std::to_string(ubatch) + " of " +
                                               std::to_string(scenario_.graph.ubatches));
  }
  each_rank(rank ? std::vector<int>{*rank} : all_ranks(scenario_),
            [&](Rank&, RankState& own) { own.placed[ubatch] = stream; });
}

// The strategies were planned for the scenario's tag; a partial of another is not theirs to take.
void Engine::require_lse_tag() const {
  const LseTag& agreed = scenario_.lse;
  if (handed_lse_.base == agreed.base && handed_lse_.dtype == agreed.dtype) return;
  throw StepError(handed_lse_.base != agreed.base ? "lse_base_mismatch" : "lse_dtype",
                  "attention hands over an lse of " + tag_text(handed_lse_) +
                      ", the combine takes one of " + tag_text(agreed));
}

bool Engine::set_odd(const verb::Set& what) {
  if (what.key == "load_stream") {
    odd_.load_stream = what.value;
  } else if (what.key == "num_requests") {
    odd_.num_requests = static_cast<std::int32_t>(value_within(what, 0, kMaxRequests));
  } else if (what.key == "max_seq_len") {
    odd_.max_seq_len = value_within(what, 0, std::numeric_limits<std::int32_t>::max());
  } else if (what.key == "workspace_ubatch") {
    odd_.workspace_ubatch = static_cast<int>(value_within(what, 0, scenario_.graph.ubatches));
  } else if (what.key == "drop_edge") {
    odd_.dropped_edge = edge_named(what.value);
  } else {
    return false;
  }
  return true;
}

void Engine::set_epoch(const verb::Set& what, std::optional<int> rank) {
  const std::int64_t epoch = integer_value(what);
  const std::int64_t last = last_epoch(static_cast<std::uint32_t>(scenario_.direct.slots));
  if (epoch < 0 || epoch > last) {
    throw std::invalid_argument("set.epoch must be from 0 to " + std::to_string(last) + ", not " +
                                what.value);
  }
  if (rank) {
    throw StepError("step_divergence", "rank " + std::to_string(*rank) +
                                           " would count from another epoch than its "
                                           "peers: set it on all ranks");
  }
  if (pending_) {
    throw StepError("graph_in_flight", "exchanges are under way: sync before the epoch is set");
  }
  begin_exchanges(static_cast<std::uint32_t>(epoch));
}

void Engine::set(const verb::Set& what, std::optional<int> rank) {
  const auto ranks = rank ? std::vector<int>{*rank} : all_ranks(scenario_);
  if (what.key == "lse_base") {
    if (what.value != "2" && what.value != "e") {
      throw std::invalid_argument("set.lse_base must be e or 2, not " + what.value);
    }
    handed_lse_.base = what.value == "2" ? LseBase::kTwo : LseBase::kE;
  } else if (what.key == "lse_dtype") {
    const auto dtypes = {DType::kFp32, DType::kFp16, DType::kBf16};
    const auto* found = std::find_if(dtypes.begin(), dtypes.end(),
                                     [&](DType dtype) { return name(dtype) == what.value; });
    if (found == dtypes.end()) {
      throw std::invalid_argument("set.lse_dtype must be fp32, fp16 or bf16, not " + what.value);
    }
    handed_lse_.dtype = *found;
  } else if (what.key == "slot_mapping") {
    const auto slot = value_within(what, -1, capacity_.num_blocks * scenario_.kv.block_size);
    each_rank(ranks, [&](Rank&, RankState& state) { state.inputs.force_slots(slot); });
  } else if (what.key == "block_table") {
    const auto block = static_cast<std::int32_t>(value_within(what, 0, capacity_.num_blocks));
    each_rank(ranks, [&](Rank&, RankState& state) { state.inputs.force_blocks(block); });
  } else if (what.key == "keep" || what.key == "keep_tail") {
    each_rank(ranks, [&](Rank&, RankState& state) {
      state.inputs.keep(what.value, what.key == "keep_tail");
    });
  } else if (what.key == "epoch") {
    set_epoch(what, rank);
  } else if (set_odd(what)) {
    return;
  } else if (what.key == "ubatch") {
    const std::int64_t ubatch = integer_value(what);
    if (ubatch < 0 || ubatch >= scenario_.graph.ubatches) {
      throw StepError("ubatch_out_of_range",
                      "ubatch " + what.value + " of " + std::to_string(scenario_.graph.ubatches));
    }
    each_rank(ranks,
              [&](Rank&, RankState& state) { state.claimed_ubatch = static_cast<int>(ubatch); });
  } else {
    throw std::invalid_argument("set." + what.key + " is not supported");
  }
}

}  // namespace dcp
