// Where another backend answers a program in another way than the simulator.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tests/conformance/generate.hpp"

namespace dcp::conformance {

// The first call that is answered differently. The other backend plays no further, since it may be
// in a state in which the next call is not safe.
struct Difference {
  std::string
      kind;  // "wait: simulator ok, other cudaErrorCapturedEvent 907": equal for all of a kind
  std::size_t call = 0;  // index in the program; its size: the bytes at the end
  std::string simulator;
  std::string other;
};

using MakeWorld = std::function<std::unique_ptr<World>()>;

std::optional<Difference> compare(const Played& played, const MakeWorld& make_other);

// Leaves calls out as long as the same kind of difference stays.
Played shrink(Played played, const std::string& kind, const MakeWorld& make_other);

// The program with the answers of the simulator, one call per line, up to the difference.
std::string text(const Played& played, const Difference& difference);

struct KnownDifference {
  std::string_view kind;
  std::string_view why;
};
std::span<const KnownDifference> known_differences();
bool is_known(const Difference& difference);

}  // namespace dcp::conformance
