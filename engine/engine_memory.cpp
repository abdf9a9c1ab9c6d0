// Memory as steps of a scenario treat it: marked, allocated, given back, replaced, grown.
#include <algorithm>
#include <cstring>

#include "core/error.hpp"
#include "core/poison.hpp"
#include "engine/engine_state.hpp"

namespace dcp {

namespace {

constexpr std::uint32_t kCanary = 0x5EEDCA4Eu;

[[noreturn]] void refuse(const std::string& why) { throw StepError("no_such_buffer", why); }

void fill_words(std::vector<std::byte>& bytes, std::uint32_t word) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(word >> 8 * (i % sizeof(word)));
  }
}

// The byte at which the memory is not the mark, if any.
std::optional<std::size_t> damage(Runtime& runtime, const std::byte* data, std::size_t size_bytes) {
  std::vector<std::byte> want(size_bytes);
  std::vector<std::byte> got(size_bytes);
  fill_words(want, kCanary);
  runtime.read(got.data(), data, size_bytes);
  const auto at = std::mismatch(got.begin(), got.end(), want.begin()).first;
  if (at == got.end()) return std::nullopt;
  return static_cast<std::size_t>(at - got.begin());
}

}  // namespace

void Engine::in_turn(std::optional<int> rank,
                     const std::function<void(Rank&, RankState&)>& program) {
  each_rank(rank ? std::vector<int>{*rank} : all_ranks(scenario_),
            [&](Rank& each, RankState& state) {
              const std::lock_guard lock(turn_);
              program(each, state);
            });
}

void Engine::fill(const BufferRef& ref, std::uint32_t word, std::vector<Mark>* marks) {
  drain();
  in_turn(ref.rank, [&](Rank& rank, RankState&) {
    for (const Mark& part : rows_of(ref, rank)) {
      std::vector<std::byte> bytes(part.size_bytes);
      fill_words(bytes, word);
      rank.runtime.write(part.data, bytes.data(), bytes.size());
      if (marks != nullptr) marks->push_back(part);
    }
  });
}

void Engine::poison(const BufferRef& ref) { fill(ref, kPoison, nullptr); }
void Engine::canary(const BufferRef& ref) { fill(ref, kCanary, &marks_); }

void Engine::check_canary(const BufferRef& ref) {
  drain();
  in_turn(ref.rank, [&](Rank& rank, RankState&) {
    const Buffer buffer = find_buffer(ref, rank).buffer;
    bool is_marked = false;
    for (const Mark& mark : marks_) {
      const bool inside = mark.data >= buffer.data &&
                          mark.data + mark.size_bytes <= buffer.data + buffer.size_bytes;
      if (mark.rank != rank.index || !inside) continue;
      is_marked = true;
      const auto at = damage(rank.runtime, mark.data, mark.size_bytes);
      if (!at) continue;
      throw Failure("canary_damaged", rank.index,
                    "byte " + std::to_string(mark.data - buffer.data + *at) + " of '" + ref.buffer +
                        "' on rank " + std::to_string(rank.index) +
                        " is not the mark that was set");
    }
    if (!is_marked) refuse("no canary was set in '" + ref.buffer + "'");
  });
}

void Engine::allocate(const verb::Allocate& what, std::optional<int> rank) {
  const auto size = static_cast<std::size_t>(what.size_bytes);
  budget_.take(static_cast<double>(size) * scenario_.world_size, "allocation '" + what.name + "'");
  const auto add = [this, what, size](int index, Runtime& runtime) {
    auto& allocated = ranks_[index]->allocated;
    if (allocated.count(what.name) > 0) refuse("'" + what.name + "' is allocated already");
    allocated[what.name] = what.where == "host_pinned" ? runtime.allocate_pinned(what.name, size)
                                                       : runtime.allocate(what.name, size);
  };
  const auto ranks = rank ? std::vector<int>{*rank} : all_ranks(scenario_);
  if (what.where == "host") {
    in_turn(rank, [&](Rank&, RankState& state) { state.pageable[what.name].resize(size); });
    return;
  }
  if (what.where == "device" || what.where == "host_pinned") {
    each_rank(ranks, [&](Rank& each, RankState&) { add(each.index, each.runtime); });
    return;
  }
  const bool from_pool = what.where == "pool";
  for (const int index : ranks) {
    during_next_capture({.rank = index,
                         .at_end = from_pool,
                         .run = [add, from_pool, index](Runtime& runtime, Stream) {
                           // An allocation that does not ask the pool is the call that CUDA
                           // refuses.
                           if (!from_pool) runtime.call(ApiCall::kMalloc, 0, CallingThread::kSame);
                           add(index, runtime);
                         }});
  }
}

void Engine::free(const BufferRef& ref) {
  in_turn(ref.rank, [&](Rank& rank, RankState& state) {
    const FoundBuffer found = find_buffer(ref, rank);
    if (found.is_part) refuse("'" + ref.buffer + "' is part of the workspace: free that");
    if (!freed_.insert({rank.index, found.buffer.id}).second) {
      refuse("'" + ref.buffer + "' was given back already");
    }
    rank.runtime.free(found.buffer);
    state.allocated.erase(ref.buffer);
    const bool grows = scenario_.workspace.policy == WorkspacePolicy::kGrowable;
    for (UbatchState& ubatch : state.ubatches) {
      const bool is_block =
          !ubatch.workspace.is_empty() && ubatch.workspace.block().id == found.buffer.id;
      if (grows && is_block) ubatch.workspace.forget();
    }
  });
}

// The old memory stays: a graph that knows it goes on reading what was there last. A symmetric
// buffer is one of all ranks, made with the engine: none of them could replace its own alone.
void Engine::rebind(const BufferRef& ref) {
  in_turn(ref.rank, [&](Rank& rank, RankState& state) {
    const FoundBuffer found = find_buffer(ref, rank);
    if (state.ubatches[0].symmetric.find(ref.buffer) != nullptr) {
      refuse("'" + ref.buffer + "' is a buffer of the direct exchange, whose address all ranks " +
             "hold: it stays where it is");
    }
    budget_.take(static_cast<double>(found.buffer.size_bytes), "another '" + ref.buffer + "'");
    found.replace(rank.runtime.allocate(ref.buffer, found.buffer.size_bytes));
  });
}

void Engine::remap(const BufferRef& ref) {
  drain();
  in_turn(ref.rank, [&](Rank& rank, RankState&) {
    const FoundBuffer found = find_buffer(ref, rank);
    if (found.is_part) refuse("'" + ref.buffer + "' is part of the workspace: remap that");
    found.replace(rank.runtime.remap(found.buffer));
  });
}

// Room for what every ubatch of the step asks for, or nothing changes.
void Engine::grow_for(const EngineStep& step, const std::vector<int>& ranks) {
  if (scenario_.workspace.policy != WorkspacePolicy::kGrowable) return;
  for (std::size_t u = 0; u < step.ubatches.size(); ++u) {
    const std::int64_t rows = step.ubatches[u].num_rows;
    take_workspace(ranks, u, need_of(scenario_, plan_.buffers(plan_.shape(0, rows)), rows));
  }
}

void Engine::take_workspace(const std::vector<int>& ranks, std::size_t ubatch,
                            const WorkspaceNeed& need) {
  for (const int rank : ranks) {
    if (!world_.has_rank(rank)) continue;
    const Workspace& workspace = ranks_[rank]->ubatches[ubatch].workspace;
    if (workspace.holds(need) || !workspace_locked_) continue;
    const auto figures = [](const WorkspaceNeed& of) {
      return std::to_string(std::max(of.asked_bytes, of.used_bytes)) + " bytes";
    };
    throw StepError("workspace_locked", "the workspace of ubatch " + std::to_string(ubatch) +
                                            " is locked: the step asks for " + figures(need) +
                                            ", it has " + figures(workspace.has()));
  }
  budget_.take(static_cast<double>(std::max(need.asked_bytes, need.used_bytes)) *
                   static_cast<double>(ranks.size()),
               "the workspace");
  each_rank(ranks, [&](Rank& rank, RankState& state) {
    Workspace& workspace = state.ubatches[ubatch].workspace;
    if (!workspace.holds(need)) workspace.take(rank.runtime, need);
  });
}

void Engine::grow_workspace(std::int64_t rows) {
  const auto ranks = all_ranks(scenario_);
  const WorkspaceNeed need = need_of(scenario_, plan_.buffers(plan_.shape(0, rows)), rows);
  const auto here =  // all ranks' workspaces are of one size
      std::find_if(ranks_.begin(), ranks_.end(),
                   [](const auto& state) { return state != nullptr; });
  for (std::size_t u = 0; u < (*here)->ubatches.size(); ++u) {
    switch (scenario_.workspace.policy) {
      case WorkspacePolicy::kGrowable:
        take_workspace(ranks, u, need);
        continue;
      case WorkspacePolicy::kFixed:
        if ((*here)->ubatches[u].workspace.holds(need)) continue;
        if (workspace_locked_) take_workspace(ranks, u, need);
        throw StepError("capacity", "a fixed workspace of " +
                                        std::to_string(capacity_.max_num_tokens) + " rows (" +
                                        capacity_.rule + ") does not grow to " +
                                        std::to_string(rows));
      case WorkspacePolicy::kGraphPool:
        refuse("under policy graph_pool there is no workspace that could grow");
    }
  }
}

}  // namespace dcp
