#include "comm/watchdog.hpp"

#include <utility>

namespace dcp {

Watchdog::Watchdog(std::chrono::milliseconds bound, std::string line,
                   std::function<void(const std::string&)> end_program)
    : thread_([this, bound, line = std::move(line), end_program = std::move(end_program)] {
        std::unique_lock lock(mutex_);
        if (!ended_.wait_for(lock, bound, [this] { return is_ended_; })) end_program(line);
      }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    is_ended_ = true;
  }
  ended_.notify_one();
}

}  // namespace dcp
