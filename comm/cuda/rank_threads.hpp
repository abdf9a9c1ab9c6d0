// One thread for each rank, for the life of a world.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace dcp {

class RankThreads {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RankThreads(int count);
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;
  ~RankThreads();

  // Calls `program(rank)`, which must not throw, on every thread and waits for all.
  void run(const std::function<void(int)>& program);

  // The two halves of run(): `program` lives until all have come back from it.
  void begin(const std::function<void(int)>& program);
  bool wait_until(Clock::time_point end);  // whether all have come back

  std::vector<int> running();  // the ranks that have not come back

 private:
  void work(int rank);

  std::mutex mutex_;
  std::condition_variable begun_;
  std::condition_variable done_;
  const std::function<void(int)>* program_ = nullptr;  // null: the threads end
  std::uint64_t round_ = 0;
  int num_running_ = 0;
  std::vector<char> is_running_;  // of each rank
  std::vector<std::thread> threads_;
};

}  // namespace dcp
