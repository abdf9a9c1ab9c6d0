// The last resort against a call of a library that waits for ever: where this still lives after
// `bound`, the program ends, with exit code 1 and one line on standard error that says why.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace dcp {

class Watchdog {
 public:
  // `end_program` is called with the line, on a thread of its own, and does not return.
  Watchdog(std::chrono::milliseconds bound, std::string line,
           std::function<void(const std::string&)> end_program);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_ended_ = false;
  std::jthread thread_;
};

}  // namespace dcp
