#include "cli/run_jobs.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace dcp {
namespace {

using std::chrono_literals::operator""ms;

std::vector<Job> jobs_of(std::initializer_list<const char*> files) {
  std::vector<Job> jobs;
  for (const char* file : files) jobs.push_back({.file = file});
  return jobs;
}

std::vector<ScenarioReport> report_of(const std::string& file) {
  ScenarioReport report;
  report.file = file;
  return {report};
}

TEST(RunJobs, ReportsInOrderWhateverEndsFirst) {
  for (const int num_threads : {1, 3, 8}) {
    auto jobs = jobs_of({"slow", "b", "c", "d"});
    std::string order;
    run_jobs(jobs, num_threads,
             {.run =
                  [](const std::string& file) {
                    if (file == "slow") std::this_thread::sleep_for(20ms);
                    return report_of(file);
                  },
              .report = [&](Job& job) { order += job.reports.at(0).file + " "; },
              .progress = [](std::size_t, const std::string&) {}});
    EXPECT_EQ(order, "slow b c d ") << num_threads;
  }
}

TEST(RunJobs, RunsSoManyAtATimeAndNoMore) {
  auto jobs = jobs_of({"a", "b", "c", "d", "e", "f"});
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  run_jobs(jobs, 2,
           {.run =
                [&](const std::string& file) {
                  const int now = ++running;
                  for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
                  }
                  std::this_thread::sleep_for(20ms);
                  --running;
                  return report_of(file);
                },
            .report = [](Job&) {},
            .progress = [](std::size_t, const std::string&) {}});
  EXPECT_EQ(most, 2);
}

TEST(RunJobs, ProgressCountsWhatIsDoneAndNamesWhatRuns) {
  auto jobs = jobs_of({"a", "b"});
  std::vector<std::pair<std::size_t, std::string>> seen;
  run_jobs(jobs, 1,
           {.run =
                [](const std::string& file) {
                  std::this_thread::sleep_for(20ms);
                  return report_of(file);
                },
            .report = [](Job&) {},
            .progress = [&](std::size_t done,
                            const std::string& file) { seen.emplace_back(done, file); }});
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back(), (std::pair<std::size_t, std::string>(1, "b")));
}

TEST(RunJobs, WhatAJobThrowsReachesTheCallerAndStopsTheRest) {
  auto jobs = jobs_of({"a", "broken", "c", "d", "e", "f", "g", "h"});
  std::string reported;
  EXPECT_THROW(run_jobs(jobs, 1,
                        {.run =
                             [](const std::string& file) {
                               if (file == "broken") throw std::runtime_error("broken");
                               if (file > "broken") std::this_thread::sleep_for(20ms);
                               return report_of(file);
                             },
                         .report = [&](Job& job) { reported += job.file; },
                         .progress = [](std::size_t, const std::string&) {}}),
               std::runtime_error);
  EXPECT_EQ(reported, "a");
  EXPECT_EQ(jobs.back().state, Job::State::kWaiting);
}

}  // namespace
}  // namespace dcp
