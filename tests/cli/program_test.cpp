// The built program, run as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

namespace dcp {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

class Program : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& file) const { return (folder_ / file).string(); }

  std::string text_of(const std::string& file) const {
    std::ifstream stream(path(file));
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  // `arguments` is shell text.
  Outcome run(const std::string& arguments) const {
    const std::string command =
        "'" DCPSIM_BINARY "' " + arguments + " >'" + path("out") + "' 2>'" + path("err") + "'";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of("out"), text_of("err")};
  }

 private:
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) /
      (std::string("dcpsim_") + testing::UnitTest::GetInstance()->current_test_info()->name());
};

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

}  // namespace
}  // namespace dcp
