#include "comm/cuda/rank_threads.hpp"

#include <algorithm>

namespace dcp {

RankThreads::RankThreads(int count) : is_running_(static_cast<std::size_t>(count)) {
  for (int rank = 0; rank < count; ++rank) threads_.emplace_back([this, rank] { work(rank); });
}

RankThreads::~RankThreads() {
  {
    const std::lock_guard lock(mutex_);
    program_ = nullptr;
    ++round_;
  }
  begun_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RankThreads::run(const std::function<void(int)>& program) {
  begin(program);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return num_running_ == 0; });
}

void RankThreads::begin(const std::function<void(int)>& program) {
  const std::lock_guard lock(mutex_);
  program_ = &program;
  num_running_ = static_cast<int>(threads_.size());
  std::fill(is_running_.begin(), is_running_.end(), 1);
  ++round_;
  begun_.notify_all();
}

bool RankThreads::wait_until(Clock::time_point end) {
  std::unique_lock lock(mutex_);
  return done_.wait_until(lock, end, [&] { return num_running_ == 0; });
}

std::vector<int> RankThreads::running() {
  const std::lock_guard lock(mutex_);
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < is_running_.size(); ++rank) {
    if (is_running_[rank] != 0) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

void RankThreads::work(int rank) {
  std::uint64_t last_round = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    begun_.wait(lock, [&] { return round_ != last_round; });
    last_round = round_;
    if (program_ == nullptr) return;
    const auto& program = *program_;
    lock.unlock();
    program(rank);
    lock.lock();
    is_running_[static_cast<std::size_t>(rank)] = 0;
    if (--num_running_ == 0) done_.notify_one();
  }
}

}  // namespace dcp
