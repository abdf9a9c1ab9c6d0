#include "cli/doctor.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <string_view>

#include "cli/command_line.hpp"
#include "cli/json_file.hpp"

namespace dcp {
namespace {

// A shared library that may not be there. It stays loaded: unloading a driver is not safe.
class Library {
 public:
  explicit Library(std::span<const char* const> names) {
    for (const char* name : names) {
      handle_ = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
      if (handle_ != nullptr) return;
      if (error_.empty()) error_ = dlerror();
    }
  }

  bool is_loaded() const { return handle_ != nullptr; }
  const std::string& error() const { return error_; }

  // Calls the named function, whose C signature is Result(Arguments...). `missing` is the result
  // where the library has no such function.
  template <class Result, class... Arguments>
  Result call(const char* name, Result missing, Arguments... arguments) const {
    const auto function = reinterpret_cast<Result (*)(Arguments...)>(dlsym(handle_, name));
    return function == nullptr ? missing : function(arguments...);
  }

 private:
  void* handle_ = nullptr;
  std::string error_;
};

// The driver's functions as cuda.h declares them; a build without CUDA has no cuda.h. CUresult is
// an int, 0 is success.
constexpr int kFailed = -1;
constexpr int kComputeCapabilityMajor = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kComputeCapabilityMinor = 76;

Check compiler_check() {
#if defined(__clang__)
  return {"compiler", true, "clang++ " __clang_version__};
#else
  return {"compiler", true, "g++ " __VERSION__};
#endif
}

std::string device_text(const Library& driver, int device) {
  std::array<char, 256> name{};
  std::size_t size_bytes = 0;
  int major = 0;
  int minor = 0;
  driver.call("cuDeviceGetName", kFailed, name.data(), static_cast<int>(name.size()), device);
  driver.call("cuDeviceTotalMem_v2", kFailed, &size_bytes, device);
  driver.call("cuDeviceGetAttribute", kFailed, &major, kComputeCapabilityMajor, device);
  driver.call("cuDeviceGetAttribute", kFailed, &minor, kComputeCapabilityMinor, device);
  return std::to_string(device) + ": " + name.data() + ", compute capability " +
         std::to_string(major) + "." + std::to_string(minor) + ", " +
         std::to_string(size_bytes >> 30) + " GiB";
}

Check gpu_check(const Library& driver) {
  int num_devices = 0;
  if (const int error = driver.call("cuInit", kFailed, 0u); error != 0) {
    return {"gpus", false, "cuInit failed with error " + std::to_string(error)};
  }
  if (driver.call("cuDeviceGetCount", kFailed, &num_devices) != 0 || num_devices == 0) {
    return {"gpus", false, "the driver sees no GPU"};
  }
  std::string text;
  for (int device = 0; device < num_devices; ++device) {
    text += (device == 0 ? "" : "; ") + device_text(driver, device);
  }
  return {"gpus", true, text};
}

void add_driver_and_gpus(std::vector<Check>& checks) {
  constexpr std::array kNames = {"libcuda.so.1"};
  const Library driver(kNames);
  if (!driver.is_loaded()) {
    checks.push_back({"cuda_driver", false, driver.error()});
    checks.push_back({"gpus", false, "needs the CUDA driver"});
    return;
  }
  int version = 0;  // 13000 is 13.0
  if (driver.call("cuDriverGetVersion", kFailed, &version) != 0) {
    checks.push_back({"cuda_driver", false, "libcuda.so.1 does not tell its version"});
  } else {
    checks.push_back({"cuda_driver", true,
                      "supports CUDA " + std::to_string(version / 1000) + "." +
                          std::to_string(version % 1000 / 10)});
  }
  checks.push_back(gpu_check(driver));
}

Check nccl_check() {
  constexpr std::array kNames = {"libnccl.so.2"};
  const Library nccl(kNames);
  if (!nccl.is_loaded()) return {"nccl", false, nccl.error()};
  int version = 0;  // 22804 is 2.28.4; before 2.9 it was 2804
  if (nccl.call("ncclGetVersion", kFailed, &version) != 0) {
    return {"nccl", false, "libnccl.so.2 does not tell its version"};
  }
  const int major = version < 10000 ? 1000 : 10000;
  return {"nccl", true,
          std::to_string(version / major) + "." + std::to_string(version % major / 100) + "." +
              std::to_string(version % 100)};
}

Check mpi_check() {
  constexpr std::array kNames = {"libmpi.so.40", "libmpich.so.12",
                                 "libmpi.so.12"};  // Open MPI, MPICH
  const Library mpi(kNames);
  if (!mpi.is_loaded()) return {"mpi", false, mpi.error()};
  std::string text(8192, '\0');  // MPICH's MPI_MAX_LIBRARY_VERSION_STRING, the largest
  int length = 0;
  if (mpi.call("MPI_Get_library_version", kFailed, text.data(), &length) != 0) {
    return {"mpi", false, "the library does not tell its version"};
  }
  text.resize(text.find_first_of(std::string_view(",\n\0", 3)));  // the first line says who it is
  return {"mpi", true, text};
}

Check cuda_backend_check() {
  std::string why;
  const BackendChoice choice{.backend = Backend::kCuda};
  if (!has_backend(choice, why)) return {"cuda_backend", false, why};
  const int num_gpus = machine_of(choice).num_peer_gpus;
  const std::string ranks = num_gpus == 1 ? "ranks of a process share one GPU"
                                          : "ranks of a process go to " + std::to_string(num_gpus) +
                                                " GPUs that NVLink joins";
  return {"cuda_backend", true, "graphs and kernels on the GPU; " + ranks};
}

}  // namespace

std::vector<Check> examine_machine() {
  std::vector<Check> checks = {
      compiler_check(),
      {"host_backend", true, "simulated streams, graphs and collectives; needs no GPU"},
      cuda_backend_check(),
  };
  add_driver_and_gpus(checks);
  checks.push_back(nccl_check());
  checks.push_back(mpi_check());
  return checks;
}

void print_checks(std::ostream& out, std::span<const Check> checks, bool color) {
  constexpr std::size_t kNameWidth = 14;
  for (const Check& check : checks) {
    const std::string_view mark = check.available ? "yes  " : "no   ";
    const std::string_view start = !color ? "" : check.available ? "\033[32m" : "\033[33m";
    const std::string_view end = color ? "\033[0m" : "";
    const std::size_t padding = kNameWidth - std::min(kNameWidth, check.name.size());
    out << start << mark << end << check.name << std::string(padding, ' ') << check.detail << '\n';
  }
}

nlohmann::ordered_json doctor_report(std::span<const Check> checks) {
  nlohmann::ordered_json report = report_head();
  report["checks"] = nlohmann::ordered_json::array();
  for (const Check& check : checks) {
    report["checks"].push_back(
        {{"name", check.name}, {"available", check.available}, {"detail", check.detail}});
  }
  return report;
}

int doctor_command(const Options& options) {
  const std::vector<Check> checks = examine_machine();
  print_checks(std::cout, checks, options.color);
  if (!options.json_path.empty()) write_json_file(options.json_path, doctor_report(checks));
  return 0;
}

}  // namespace dcp
