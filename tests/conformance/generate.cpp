#include "tests/conformance/generate.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <random>

#include "comm/simulated/host_world.hpp"

namespace dcp::conformance {

namespace {

// How often each verb is drawn, in the order of Verb.
constexpr std::array<double, kNumVerbs> kWeights = {14, 10, 5, 14, 10, 7, 6, 2,
                                                    6,  3,  2, 6,  8,  2, 1, 2};

// Draws calls that make sense more often than not: where all are arbitrary, nearly every capture is
// invalid before it holds a node.
class Generator {
 public:
  explicit Generator(std::uint64_t seed)
      : random_(seed),
        num_streams_(1 + below(kNumStreams)),
        num_events_(1 + below(kNumEvents)),
        misuses_(below(3) > 0) {}

  int below(std::size_t count) { return static_cast<int>(random_() % count); }

  // What to play next: one call, or a few that belong together.
  std::vector<Call> next(const Order& order);

 private:
  Call arbitrary();
  std::optional<int> one_of(const std::vector<int>& those);
  bool point_to(Call& call, const Order& order);
  std::vector<Call> fork(const Order& order);
  std::vector<Call> ending(const Order& order);

  std::mt19937_64 random_;
  int num_streams_;
  int num_events_;
  bool misuses_;
};

Call Generator::arbitrary() {
  constexpr DType kDTypes[] = {DType::kBf16, DType::kFp16, DType::kFp32};
  std::discrete_distribution<int> verbs(kWeights.begin(), kWeights.end());
  Call call;
  call.verb = static_cast<Verb>(verbs(random_));
  call.stream = below(num_streams_);
  call.event = below(num_events_);
  call.source = -1 - below(kNumSources);
  call.mode = static_cast<CaptureMode>(below(3));
  call.api = static_cast<ApiCall>(below(static_cast<int>(ApiCall::kMemcpy) + 1));
  call.thread = below(2) == 0 ? CallingThread::kSame : CallingThread::kOther;
  call.dtype = kDTypes[below(3)];
  call.collective = static_cast<CollectiveKind>(below(4));
  return call;
}

std::optional<int> Generator::one_of(const std::vector<int>& those) {
  if (those.empty()) return std::nullopt;
  return those[below(those.size())];
}

// Lets the call refer to something that is there; false where there is nothing.
bool Generator::point_to(Call& call, const Order& order) {
  std::optional<int> ref = 0;
  switch (call.verb) {
    case Verb::kCopy:
    case Verb::kRound:
    case Verb::kCollective:
      if (below(3) > 0) {
        call.source = one_of(order.readable_slots(call.stream)).value_or(call.source);
      }
      if (below(3) == 0) call.buffer = one_of(order.usable_buffers(call.stream)).value_or(-1);
      return true;
    case Verb::kFree:
      ref = one_of(order.freeable_buffers());
      break;
    case Verb::kInstantiate:
    case Verb::kDestroyGraph:
      ref = one_of(order.graphs_without_exec());
      break;
    case Verb::kLaunch:
    case Verb::kDestroyExec:
      ref = one_of(order.execs());
      break;
    default:
      break;
  }
  call.ref = ref.value_or(0);
  return ref.has_value();
}

// A record in a capture in progress, and a wait of any stream for it.
std::vector<Call> Generator::fork(const Order& order) {
  Call record = arbitrary();
  record.verb = Verb::kRecord;
  if (const auto capture = one_of(order.captures())) {
    record.stream = one_of(order.streams_of(*capture)).value_or(record.stream);
  }
  Call wait = record;
  wait.verb = Verb::kWait;
  wait.stream = below(num_streams_);
  return {record, wait};
}

// The end of a capture, mostly after a join of all its streams.
std::vector<Call> Generator::ending(const Order& order) {
  const auto capture = one_of(order.captures());
  Call end = arbitrary();
  end.verb = Verb::kEnd;
  if (!capture || below(8) == 0) return {end};
  end.stream = order.origin_of(*capture);
  std::vector<Call> calls;
  if (below(4) > 0) {
    for (const int stream : order.streams_of(*capture)) {
      if (stream == end.stream) continue;
      Call call = end;
      call.verb = Verb::kRecord;
      call.stream = stream;
      calls.push_back(call);
      call.verb = Verb::kWait;
      call.stream = end.stream;
      calls.push_back(call);
    }
  }
  calls.push_back(end);
  return calls;
}

std::vector<Call> Generator::next(const Order& order) {
  Call call = arbitrary();
  const bool captures = !order.captures().empty();
  switch (call.verb) {
    case Verb::kRecord:
      if (below(2) == 0) return fork(order);
      break;
    case Verb::kBegin:
      if (captures && below(4) > 0) return {};
      break;
    case Verb::kEnd:
      if (!captures && below(10) > 0) return {};
      return ending(order);
    case Verb::kWait:
      for (int i = 0; i < 4 && !order.is_plain_wait(call.stream, call.event); ++i) {
        call.stream = below(num_streams_);
        call.event = below(num_events_);
      }
      if (!order.is_plain_wait(call.stream, call.event) && (!misuses_ || below(2) > 0)) return {};
      break;
    case Verb::kApiCall:
      if (captures && (!misuses_ || below(2) > 0)) return {};
      break;
    default:
      break;
  }
  if (!point_to(call, order)) return {};
  return {call};
}

// Plays calls one by one and keeps those that are allowed.
class Recorder {
 public:
  Recorder(std::uint64_t seed, std::uint64_t schedule_seed)
      : player_(make_simulator(schedule_seed)) {
    played_.program.seed = seed;
  }

  bool add(Call call) {
    if (!order_.allowed(call)) return false;
    order_.complete(call);
    const Answer answer = player_.play(call);
    order_.happened(call, answer);
    played_.program.calls.push_back(call);
    played_.transcript.answers.push_back(answer.text);
    return true;
  }

  const Order& order() const { return order_; }
  int size() const { return static_cast<int>(played_.program.calls.size()); }

  Played finish() {
    played_.transcript.slots = player_.finish();
    return std::move(played_);
  }

 private:
  Player player_;
  Order order_;
  Played played_;
};

}  // namespace

std::unique_ptr<World> make_simulator(std::uint64_t schedule_seed) {
  return std::make_unique<HostWorld>(1, schedule_seed, kNumCommunicators);
}

Played generate(std::uint64_t seed) {
  Generator generator(seed);
  Recorder recorder(seed, seed);
  const int num_draws = 12 + generator.below(2 * kMaxCalls);
  for (int draw = 0; draw < num_draws; ++draw) {
    for (Call& call : generator.next(recorder.order())) {
      if (recorder.size() == kMaxCalls) break;
      call.id = recorder.size();
      recorder.add(call);
    }
  }
  return recorder.finish();
}

Played play_allowed(std::uint64_t seed, const std::vector<Call>& calls,
                    std::uint64_t schedule_seed) {
  Recorder recorder(seed, schedule_seed);
  for (const Call& call : calls) recorder.add(call);
  return recorder.finish();
}

}  // namespace dcp::conformance
