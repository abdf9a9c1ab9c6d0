#include "comm/cuda/rank_threads.hpp"

namespace dcp {

RankThreads::RankThreads(int count) {
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
  std::unique_lock lock(mutex_);
  program_ = &program;
  num_running_ = static_cast<int>(threads_.size());
  ++round_;
  begun_.notify_all();
  done_.wait(lock, [&] { return num_running_ == 0; });
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
    if (--num_running_ == 0) done_.notify_one();
  }
}

}  // namespace dcp
