#include "cli/processes.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <iostream>
#include <string>

#include "comm/process_group.hpp"

namespace dcp {

namespace {

// A process whose output is kept, and shown only if the one that reports is lost.
class KeptOutput {
 public:
  // Where there is no room to keep it, it goes nowhere.
  void begin() {
    kept_ = std::tmpfile();
    output_ = dup(STDOUT_FILENO);
    const bool is_kept = kept_ != nullptr && dup2(fileno(kept_), STDOUT_FILENO) >= 0;
    if (!is_kept && std::freopen("/dev/null", "w", stdout) == nullptr) return;
  }

  void show() const {
    if (kept_ == nullptr) return;
    std::rewind(kept_);
    std::array<char, 4096> part{};
    std::size_t count = 0;
    while ((count = std::fread(part.data(), 1, part.size(), kept_)) > 0) {
      if (write(output_, part.data(), count) < 0) return;
    }
  }

 private:
  int output_ = -1;  // what was the standard output
  std::FILE* kept_ = nullptr;
};

void be_quiet(Options& options) {
  options.progress = false;
  for (std::string* path : {&options.json_path, &options.junit_path, &options.trace_path,
                            &options.dump_path, &options.dot_path, &options.html_path}) {
    path->clear();
  }
}

}  // namespace

void run_in_processes(Options options, const std::function<int(const Options&)>& program) {
  ProcessGroup& group = ProcessGroup::get();
  KeptOutput kept;
  if (group.rank() > 0) {
    be_quiet(options);
    kept.begin();
  }
  const int exit_code = program(options);
  std::cout.flush();
  std::fflush(stdout);
  if (group.rank() > 0 && group.is_broken() && group.is_speaker()) kept.show();
  group.leave(exit_code);
}

}  // namespace dcp
