#include "cli/run_jobs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace dcp {
namespace {

using namespace std::chrono_literals;

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

// Waits for the condition, but not for ever: a test that hangs says less than one that fails.
template <class Condition>
bool comes_true(const Condition& condition) {
  const auto limit = std::chrono::steady_clock::now() + 20s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

TEST(RunJobs, RunsSoManyAtATimeAndNoMore) {
  auto jobs = jobs_of({"a", "b", "c", "d"});
  std::atomic<int> begun = 0;
  std::atomic<int> ended = 0;
  std::atomic<bool> too_many = false;
  run_jobs(jobs, 2,
           {.run =
                [&](const std::string& file) {
                  const int mine = ++begun;
                  if (mine - ended > 2) too_many = true;
                  // The first waits for a second one beside it.
                  EXPECT_TRUE(mine > 1 || comes_true([&] { return begun > 1; }));
                  ++ended;
                  return report_of(file);
                },
            .report = [](Job&) {},
            .progress = [](std::size_t, const std::string&) {}});
  EXPECT_FALSE(too_many);
  EXPECT_EQ(begun, 4);
}

TEST(RunJobs, ProgressCountsWhatIsDoneAndNamesWhatRuns) {
  auto jobs = jobs_of({"a", "b"});
  std::atomic<char> shown = '-';  // the file that was named last
  std::vector<std::pair<std::size_t, std::string>> seen;
  run_jobs(jobs, 1,
           {.run =
                [&](const std::string& file) {
                  EXPECT_TRUE(comes_true([&] { return shown == file.front(); }));
                  return report_of(file);
                },
            .report = [](Job&) {},
            .progress =
                [&](std::size_t done, const std::string& file) {
                  seen.emplace_back(done, file);
                  shown = file.empty() ? '-' : file.front();
                }});
  using Seen = std::pair<std::size_t, std::string>;
  EXPECT_THAT(seen, testing::Contains(Seen(0, "a")));
  EXPECT_EQ(seen.back(), Seen(1, "b"));
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
