// The direct exchanges of an engine: their buffers, which all ranks have from the beginning, and
// the epochs and flags in them.
#include <algorithm>
#include <cstring>

#include "engine/engine_state.hpp"
#include "kernels/exchange_state.hpp"
#include "strategies/symmetric_buffers.hpp"

namespace dcp {

void Engine::allocate_exchanges() {
  const BufferPlan all = plan_.buffers(plan_.shape(0, capacity_.max_num_tokens));
  for (const BufferSpec& spec : all.specs()) {
    if (spec.lifetime == Lifetime::kSymmetric) exchanges_.add(spec);
  }
  if (exchanges_.specs().empty()) return;
  for (int u = 0; u < scenario_.graph.ubatches; ++u) {
    const auto sets = allocate_symmetric(world_, exchanges_);
    for (std::size_t rank = 0; rank < sets.size(); ++rank) {
      ranks_[rank]->ubatches[static_cast<std::size_t>(u)].symmetric = sets[rank];
    }
  }
  begin_exchanges(0);
}

void Engine::begin_exchanges(std::uint32_t epoch) {
  const auto num_slots = static_cast<std::uint32_t>(scenario_.direct.slots);
  world_.each_rank([&](Rank& rank) {
    for (const UbatchState& ubatch : ranks_[rank.index]->ubatches) {
      for (const BufferSpec& spec : exchanges_.specs()) {
        const auto words = content_at(spec, epoch, num_slots);
        if (words.empty()) continue;
        rank.runtime.write(ubatch.symmetric.at(spec.name), words.data(), spec.size_bytes);
      }
    }
  });
}

// How far every rank has come, for a wait that was in vain.
std::string Engine::describe_exchanges() const {
  const auto num_slots = static_cast<std::uint32_t>(scenario_.direct.slots);
  std::vector<std::string> texts(ranks_.size());
  world_.each_rank([&](Rank& rank) {
    const auto& ubatches = ranks_[rank.index]->ubatches;
    for (std::size_t u = 0; u < ubatches.size(); ++u) {
      for (const BufferSpec& spec : exchanges_.specs()) {
        if (!is_state(spec.content)) continue;
        ExchangeState state;
        rank.runtime.read(&state, ubatches[u].symmetric.at(spec.name), sizeof(state));
        texts[rank.index] += "; rank " + std::to_string(rank.index) + ", ubatch " +
                             std::to_string(u) + ", " + spec.name + ": last published " +
                             std::to_string(state.published);
        if (spec.content == Content::kPublishedState) continue;
        texts[rank.index] += ", last consumed " + std::to_string(last_consumed(state, num_slots));
      }
    }
  });
  std::string text;
  for (const std::string& of_rank : texts) text += of_rank;
  return text;
}

// What an earlier exchange left in the slots must not be taken for this one's. Bytes that a step
// has marked stay; while something is pending a faster peer may have stored already.
void Engine::poison_slots(const StepRun& run) {
  if (pending_) return;
  each_rank(run.ranks, [&](Rank& rank, RankState& state) {
    Upload to_device = upload(rank, state.ubatches[0].compute);
    for (const UbatchState& ubatch : state.ubatches) {
      for (const BufferSpec& spec : exchanges_.specs()) {
        if (spec.content != Content::kRows) continue;
        const Buffer& rows = *ubatch.symmetric.find(spec.name);
        const bool is_marked = std::any_of(marks_.begin(), marks_.end(), [&](const Mark& mark) {
          return mark.rank == rank.index && mark.data >= rows.data &&
                 mark.data < rows.data + rows.size_bytes;
        });
        if (!is_marked) to_device.poison(rows.data, rows.size_bytes);
      }
    }
    to_device.finish();
  });
}

}  // namespace dcp
