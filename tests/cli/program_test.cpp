// The built program, run as a user runs it.
#include "tests/cli/program.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace dcp {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;

using test::Outcome;

class Program : public test::ProgramTest {};

TEST_F(Program, VersionIsOneLine) {
  const Outcome outcome = run("--version");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "dcpsim " DCPSIM_VERSION "\n");
}

TEST_F(Program, HelpGoesToStdoutAndSucceeds) {
  const Outcome outcome = run("--help");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("Usage: dcpsim COMMAND"));
  EXPECT_THAT(outcome.err, IsEmpty());
}

TEST_F(Program, BadUsageIsOneLineOnStderrAndExitCodeTwo) {
  for (const char* arguments : {"", "lits", "list --sede 3", "list --json", "list extra"}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_THAT(outcome.out, IsEmpty()) << arguments;
    EXPECT_THAT(outcome.err, MatchesRegex("dcpsim: error: [^\n]+\n")) << arguments;
  }
}

TEST_F(Program, UnwritableReportIsBadInput) {
  const Outcome outcome = run("doctor --json /no/such/folder/x.json");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err, "/no/such/folder/x.json: error: cannot write this file\n");
  const std::string pipe = path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const Outcome unread = run("list --json '" + pipe + "'");
  EXPECT_EQ(unread.exit_code, 2);
  EXPECT_EQ(unread.err, pipe + ": error: cannot write this file\n");
}

TEST_F(Program, ListNamesStrategiesModelsAndKinds) {
  const Outcome outcome = run("list");
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* word : {"\n  ag_rs ", "\n  deepseek-v3 ", "\n  replay ", "\n  stale_pointer "}) {
    EXPECT_THAT(outcome.out, HasSubstr(word));
  }
}

TEST_F(Program, DoctorSucceedsAndWritesItsReport) {
  const Outcome outcome = run("doctor --json '" + path("report.json") + "'");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("yes  host_backend"));
  const auto report = nlohmann::json::parse(text_of("report.json"));
  EXPECT_EQ(report["schema_version"], 1);
  EXPECT_THAT(report["checks"], Not(IsEmpty()));
}

TEST_F(Program, OutputThatIsNotATerminalHasNoColor) {
  EXPECT_THAT(run("doctor").out, Not(HasSubstr("\033")));
}

constexpr const char* kScenario = "{world_size: 2, model: tiny, batches: {b: {seq_lens: [5, 3]}}}";

TEST_F(Program, LostOutputIsAnError) {
  write("x.yaml", kScenario);
  for (const std::string& arguments : {std::string("list"), std::string("doctor"),
                                       std::string("--help"), "run '" + path("x.yaml") + "'"}) {
    const Outcome outcome = run(arguments + " >/dev/full #");
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
  }
  const Outcome shown = run("list >/dev/full 2>'" + path("shown") + "' #");
  EXPECT_EQ(text_of("shown"), "dcpsim: error: cannot write to standard output\n");
  for (const std::string& arguments : {std::string("list"), "run '" + path("x.yaml") + "'"}) {
    const Outcome outcome = run(arguments + " --json /dev/full");
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_EQ(outcome.err, "/dev/full: error: cannot write this file\n") << arguments;
  }
}

TEST_F(Program, WhatIsNoFileIsRefusedAndTheOthersRun) {
  std::filesystem::create_directory(path("in"));
  for (const char* extension : {"json", "yaml"}) {
    const auto name = [&](const char* stem) { return path("in/") + stem + "." + extension; };
    ASSERT_EQ(mkfifo(name("a").c_str(), 0600), 0);
    std::filesystem::create_symlink(name("b"), name("b"));
  }
  write("in/x.yaml", kScenario);
  for (const char* command : {"check", "run"}) {
    const Outcome outcome = run(std::string(command) + " '" + path("in") + "'");
    EXPECT_EQ(outcome.exit_code, 2) << command;
    EXPECT_THAT(outcome.out, HasSubstr(": error: is not a regular file\n")) << command;
    EXPECT_THAT(outcome.out, HasSubstr(": error: cannot be read: Too many levels")) << command;
  }
  EXPECT_THAT(run("run '" + path("in") + "'").out, HasSubstr("1 passed, 0 failed, 2 refused"));
  EXPECT_EQ(run("check '" + path("in/a.json") + "'").exit_code, 2);
  EXPECT_EQ(run("check '" + path("in/b.json") + "'").exit_code, 2);
  EXPECT_EQ(run("run '" + path("in/b.yaml") + "/x.yaml'").exit_code, 2);
}

TEST_F(Program, AFileThatSeveralPathsNameRunsOnce) {
  write("x.yaml", kScenario);
  std::filesystem::create_symlink(path("x.yaml"), path("y.yaml"));
  const std::string file = "'" + path("x.yaml") + "' ";
  const Outcome outcome =
      run("run " + file + file + "'" + path("./x.yaml") + "' '" + path("") + "' --strategy a2a");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("1 passed, 0 failed, 0 refused"));
}

TEST_F(Program, ANameWithControlCharactersIsShownInOneLine) {
  const std::string file = path("a\nb\x1B.yaml");
  write("a\nb\x1B.yaml", "world_size: x\n");
  const Outcome outcome = run("run '" + file + "' --set \"$(printf 'a\nb')=1\"");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.out, HasSubstr("a\\nb\\x1B.yaml"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("a\nb")));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\x1B")));
}

// A report is of a type whose destructor needs memory too.
TEST_F(Program, MemoryThatDoesNotSufficeIsOneLineAndExitCode2) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer reserves more than any limit";
#endif
  write("large.yaml",
        "schema: 1\nworld_size: 2\nmodel: tiny\n"
        "batches: {b: {seq_lens: [2000000], query_start_loc: [0, 1048576]}}\n");
  for (const int limit_kb : {250000, 350000, 500000}) {
    const std::string command = "ulimit -v " + std::to_string(limit_kb) +
                                "; '" DCPSIM_BINARY "' explain '" + path("large.yaml") +
                                "' --json '" + path("j") + "' >/dev/null 2>'" + path("err") + "'";
    const int status = std::system(command.c_str());
    ASSERT_TRUE(WIFEXITED(status)) << limit_kb;
    EXPECT_EQ(WEXITSTATUS(status), 2) << limit_kb;
    EXPECT_NE(text_of("err").find("memory does not hold"), std::string::npos) << text_of("err");
  }
}

}  // namespace
}  // namespace dcp
