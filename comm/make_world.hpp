// Makes the world that a run asked for. The only place that knows which backends there are.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "comm/world.hpp"

namespace dcp {

class ScheduleObserver;
class SchedulePolicy;

enum class Backend : std::uint8_t { kHost, kCuda };

// How ranks of the CUDA backend exchange bytes: by loads and stores to each other's memory, or
// through NCCL.
enum class CommKind : std::uint8_t { kSymmetric, kNccl };

struct BackendChoice {
  Backend backend = Backend::kHost;
  CommKind comm = CommKind::kSymmetric;  // of the CUDA backend
  std::int64_t wait_bound_ms = 0;        // of its waits for other ranks; 0: the default of `comm`
  friend bool operator==(const BackendChoice&, const BackendChoice&) = default;
};

std::string_view name(Backend backend);  // "host"
std::string_view name(CommKind comm);    // "symmetric"

// "host" and "simulated", or "cuda" and how its ranks talk: what a report says of a run.
std::string_view comm_name(const BackendChoice& choice);

// The machine of a backend as a report shows it. Empty: not used, or not there.
struct Machine {
  std::string gpus;       // that this process may use: "NVIDIA H200", "2 x NVIDIA H200"
  std::string driver;     // "580.159.04, CUDA 13.0"
  std::string nccl;       // "2.28.3"
  int num_peer_gpus = 0;  // that comm symmetric spreads ranks over
};

// Asked once: a GPU that a run has stopped says nothing any more.
const Machine& machine_of(const BackendChoice& choice);

struct WorldOptions {
  BackendChoice backend = {};
  int world_size = 1;
  int num_communicators = 1;             // one for each ubatch
  std::uint64_t seed = 0;                // of the schedule; the host backend only
  SchedulePolicy* schedule = nullptr;    // as above, in place of the seed
  ScheduleObserver* observer = nullptr;  // as above
};

// Whether this build and machine can run it; `why` says what is missing.
bool has_backend(const BackendChoice& choice, std::string& why);

// StepError backend_unavailable where has_backend() is false.
std::unique_ptr<World> make_world(const WorldOptions& options);

}  // namespace dcp
