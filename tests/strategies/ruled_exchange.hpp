// The operations of the direct exchange by another rule of where things lie and what a wait takes
// for done: the protocol with one mistake in it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "strategies/direct_exchange.hpp"

namespace dcp::test {

// As the engine does it. A rule with a mistake replaces one of these.
struct SoundRule {
  static std::uint32_t row_slot(std::uint32_t epoch) { return epoch % 2; }
  static std::uint32_t flag_slot(std::uint32_t epoch) { return epoch % 2; }
  static bool passes(std::uint32_t flag, std::uint32_t epoch, int /*rank*/) {
    return flag == epoch;
  }
};

// Flags only grow, until they wrap.
struct NotBelow : SoundRule {
  static bool passes(std::uint32_t flag, std::uint32_t epoch, int) { return flag >= epoch; }
};

// One flag of each sender, whatever the slot.
struct OneFlag : SoundRule {
  static std::uint32_t flag_slot(std::uint32_t) { return 0; }
};

// One slot for all exchanges.
struct OneSlot : SoundRule {
  static std::uint32_t row_slot(std::uint32_t) { return 0; }
};

// The slot of the parity that the host counted when it captured a graph of three exchanges: the
// last of a replay and the first of the next have the same.
struct HostParity : SoundRule {
  static std::uint32_t row_slot(std::uint32_t epoch) { return (epoch - 1) % 3 % 2; }
  static std::uint32_t flag_slot(std::uint32_t epoch) { return row_slot(epoch); }
};

// The flag to wait for is the number that the host counted when it captured three exchanges. Flags
// grow from replay to replay, so that a later one does not wait. (No exchange has raised a flag of
// the largest numbers: those are at rest.)
struct FrozenFlag : SoundRule {
  static bool passes(std::uint32_t flag, std::uint32_t epoch, int) {
    return flag >= (epoch - 1) % 3 + 1 && flag < 0xFFFFFFFEu;
  }
};

// A tag that is the same again whenever the slot is.
struct RepeatingTag : SoundRule {
  static bool passes(std::uint32_t flag, std::uint32_t epoch, int) { return flag % 2 == epoch % 2; }
};

// Rank 0 does not wait in one exchange.
template <std::uint32_t kEpoch>
struct SkippedWait : SoundRule {
  static bool passes(std::uint32_t flag, std::uint32_t epoch, int rank) {
    return (rank == 0 && epoch == kEpoch) || flag == epoch;
  }
};

// The parameters with a state of which the slot of two is the rule's.
template <class Params>
Params with_slot(const Params& params, std::uint32_t slot, ExchangeState& moved) {
  Params changed = params;
  moved = *params.state;
  moved.epoch = slot;
  changed.state = &moved;
  return changed;
}

template <class Rule>
struct RuledDispatch : DirectDispatch {
  static void run(const Params& params) {
    ExchangeState moved;
    DirectDispatch::run(with_slot(params, Rule::row_slot(params.state->epoch), moved));
  }
};

template <class Rule>
struct RuledRead : DirectRead {
  static void run(const Params& params) {
    ExchangeState moved;
    DirectRead::run(with_slot(params, Rule::row_slot(params.state->epoch), moved));
    params.state->consumed = params.state->epoch;
  }
};

template <class Rule>
struct RuledPublish : DirectPublish {
  static void run(const Params& params) {
    const std::uint32_t epoch = params.state->epoch;
    for (int peer = 0; peer < params.world_size; ++peer) {
      std::uint32_t* const at =
          params.signals.at[peer] +
          Rule::flag_slot(epoch) * static_cast<std::uint32_t>(params.world_size) + params.rank;
      if (peer == params.rank) {
        *at = epoch;
      } else {
        params.stores->store_release({params.rank, peer}, at, epoch);
      }
    }
    params.state->published = epoch;
  }
};

template <class Rule>
struct RuledWait : DirectWait {
  static bool ready(const Params& params) {
    const std::uint32_t epoch = params.state->epoch;
    const std::uint32_t* const flags =
        params.signals + Rule::flag_slot(epoch) * static_cast<std::uint32_t>(params.world_size);
    return std::all_of(flags, flags + params.world_size,
                       [&](std::uint32_t flag) { return Rule::passes(flag, epoch, params.rank); });
  }
};

template <class Rule>
struct RuledOps : DirectOps {
  using Dispatch = RuledDispatch<Rule>;
  using Publish = RuledPublish<Rule>;
  using Wait = RuledWait<Rule>;
  using Read = RuledRead<Rule>;
};

}  // namespace dcp::test
