#include "cli/run_jobs.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace dcp {

namespace {

class JobRun {
 public:
  JobRun(std::vector<Job>& jobs, const JobCalls& calls) : jobs_(jobs), calls_(calls) {}

  void work() {
    std::unique_lock lock(mutex_);
    while (next_ < jobs_.size()) {
      Job& job = jobs_[next_++];
      job.state = Job::State::kRunning;
      changed_.notify_one();
      lock.unlock();
      run(job);
      lock.lock();
      job.state = Job::State::kDone;
      changed_.notify_one();
    }
  }

  void report_all() {
    std::unique_lock lock(mutex_);
    show_progress();
    for (Job& job : jobs_) {
      while (job.state != Job::State::kDone) {
        show_progress();  // again after a report, which has written over it
        changed_.wait(lock);
      }
      lock.unlock();
      if (job.broke) std::rethrow_exception(job.broke);
      calls_.report(job);
      lock.lock();
    }
  }

  // Jobs that have not begun stay so.
  void stop() {
    const std::lock_guard lock(mutex_);
    next_ = jobs_.size();
  }

 private:
  // What it throws is kept for the caller's thread: here it would end the program.
  void run(Job& job) const {
    try {
      job.reports = calls_.run(job.file);
    } catch (...) {
      job.broke = std::current_exception();
    }
  }

  void show_progress() const {
    const auto is_done = [](const Job& job) { return job.state == Job::State::kDone; };
    const auto num_done = std::count_if(jobs_.begin(), jobs_.end(), is_done);
    const auto running = std::find_if(jobs_.begin(), jobs_.end(), [](const Job& job) {
      return job.state == Job::State::kRunning;
    });
    calls_.progress(static_cast<std::size_t>(num_done),
                    running == jobs_.end() ? std::string() : running->file);
  }

  std::vector<Job>& jobs_;
  const JobCalls& calls_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t next_ = 0;
};

}  // namespace

void run_jobs(std::vector<Job>& jobs, int num_threads, const JobCalls& calls) {
  JobRun run(jobs, calls);
  std::vector<std::jthread> workers;
  const std::size_t num_workers = std::min(static_cast<std::size_t>(num_threads), jobs.size());
  try {
    for (std::size_t i = 0; i < num_workers; ++i) workers.emplace_back([&run] { run.work(); });
  } catch (const std::system_error&) {  // no more threads here: those that began do all
    if (workers.empty()) throw;
  }
  try {
    run.report_all();
  } catch (...) {
    run.stop();
    throw;
  }
}

}  // namespace dcp
