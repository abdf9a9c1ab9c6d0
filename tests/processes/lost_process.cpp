// lost_process VICTIM kill|stop|throw|slow|none: processes that meet in rounds; after the third,
// process VICTIM is killed, stopped, throws, or works longer than a wait may last. Ends as dcpsim
// does: the process that reports prints why the rounds ended.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "comm/process_group.hpp"
#include "comm/process_rounds.hpp"

namespace {

constexpr int kNumRounds = 6;
constexpr std::chrono::milliseconds kWaitBound{300};
constexpr std::chrono::seconds kWorkBound{8};
constexpr std::chrono::seconds kSlowWork{13};  // more than the wait's bound and its grace of 10 s

void suffer(const std::string& how) {
  if (how == "kill") raise(SIGKILL);
  if (how == "stop") raise(SIGSTOP);
  if (how == "slow") std::this_thread::sleep_for(kSlowWork);
  if (how == "throw") throw dcp::Failure("deadlock", 0, "it waits for its peers");
}

// Longer than what MPI sends at once, and of another length from each.
void share_and_look(dcp::ProcessRounds& rounds) {
  const auto bytes_of = [](int rank) {
    return std::vector<std::byte>(static_cast<std::size_t>(rank) * 300'000 + 1,
                                  static_cast<std::byte>(rank + 1));
  };
  const dcp::ProcessGroup& group = dcp::ProcessGroup::get();
  const auto all = rounds.share(bytes_of(group.rank()), rounds.end_of_work());
  for (int rank = 0; rank < group.size(); ++rank) {
    if (all.at(static_cast<std::size_t>(rank)) != bytes_of(rank)) std::abort();
  }
}

void run_rounds(dcp::ProcessRounds& rounds, bool is_victim, const std::string& how) {
  for (int round = 0; round < kNumRounds; ++round) {
    std::exception_ptr thrown;
    try {
      if (is_victim && round == 3) suffer(how);
    } catch (...) {
      thrown = std::current_exception();
    }
    rounds.agree(thrown, rounds.end_of_wait());
    share_and_look(rounds);
  }
}

}  // namespace

int main(int, char** argv) {
  dcp::ProcessGroup& group = dcp::ProcessGroup::get();
  int exit_code = 0;
  std::string said = "all rounds are done";
  try {
    dcp::ProcessRounds rounds(kWaitBound, kWorkBound);
    run_rounds(rounds, group.rank() == std::atoi(argv[1]), argv[2]);
  } catch (const dcp::Failure& failure) {
    said = failure.kind() + ": " + failure.why();
    exit_code = 1;
  }
  if (group.is_speaker()) std::cout << said << std::endl;
  group.leave(exit_code);
}
