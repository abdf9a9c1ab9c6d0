#include "comm/make_world.hpp"

#include <chrono>
#include <string>

#include "comm/simulated/host_world.hpp"
#include "core/error.hpp"

#ifdef DCPSIM_HAS_CUDA
#include "comm/cuda/nccl_world.hpp"
#include "comm/cuda/symmetric_world.hpp"
#include "runtime/cuda/cuda_device.hpp"
#endif

namespace dcp {

std::string_view name(Backend backend) { return backend == Backend::kHost ? "host" : "cuda"; }

std::string_view name(CommKind comm) { return comm == CommKind::kNccl ? "nccl" : "symmetric"; }

std::string_view comm_name(const BackendChoice& choice) {
  return choice.backend == Backend::kHost ? "simulated" : name(choice.comm);
}

bool has_backend(const BackendChoice& choice, std::string& why) {
  if (choice.backend == Backend::kHost) return true;
#ifdef DCPSIM_HAS_CUDA
  if (!find_cuda_device(why)) return false;
  return choice.comm != CommKind::kNccl || find_nccl(why) != nullptr;
#else
  why = "this build has no CUDA backend";
  return false;
#endif
}

namespace {

Machine look_at_machine(const BackendChoice& choice) {
  Machine machine;
  std::string why;
  if (!has_backend(choice, why)) return machine;
#ifdef DCPSIM_HAS_CUDA
  machine.gpus = cuda_devices_text();
  machine.driver = cuda_driver_text();
  if (choice.comm == CommKind::kNccl) {
    machine.nccl = nccl_version_text(*find_nccl(why));
  } else {
    machine.num_peer_gpus = static_cast<int>(peer_devices().size());
  }
#endif
  return machine;
}

}  // namespace

const Machine& machine_of(const BackendChoice& choice) {
  static const Machine host;
  if (choice.backend == Backend::kHost) return host;
  if (choice.comm == CommKind::kNccl) {
    static const Machine of_nccl = look_at_machine(choice);
    return of_nccl;
  }
  static const Machine of_symmetric = look_at_machine(choice);
  return of_symmetric;
}

std::unique_ptr<World> make_world(const WorldOptions& options) {
  std::string why;
  if (!has_backend(options.backend, why)) throw StepError("backend_unavailable", why);
#ifdef DCPSIM_HAS_CUDA
  if (options.backend.backend == Backend::kCuda) {
    const std::chrono::milliseconds bound(options.backend.wait_bound_ms);
    if (options.backend.comm == CommKind::kNccl) {
      return std::make_unique<NcclWorld>(options.world_size, options.num_communicators, bound);
    }
    return std::make_unique<SymmetricWorld>(options.world_size, options.num_communicators, bound);
  }
#endif
  auto world =
      std::make_unique<HostWorld>(options.world_size, options.seed, options.num_communicators);
  world->follow(options.schedule);
  world->observe(options.observer);
  return world;
}

}  // namespace dcp
