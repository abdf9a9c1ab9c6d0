#include "cli/doctor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace dcp {
namespace {

const std::vector<Check> kChecks = {{"host_backend", true, "always"}, {"nccl", false, "not found"}};

TEST(Doctor, NamesEveryPartOnceAndSaysWhy) {
  const std::vector<Check> checks = examine_machine();
  std::vector<std::string> names;
  for (const Check& check : checks) {
    names.push_back(check.name);
    EXPECT_NE(check.detail, "") << check.name;
  }
  EXPECT_THAT(names, testing::ElementsAre("compiler", "host_backend", "cuda_backend", "cuda_driver",
                                          "gpus", "nccl", "mpi"));
}

TEST(Doctor, HostBackendIsAlwaysThere) {
  const std::vector<Check> checks = examine_machine();
  const auto host = std::ranges::find(checks, "host_backend", &Check::name);
  ASSERT_NE(host, checks.end());
  EXPECT_TRUE(host->available);
}

TEST(Doctor, PrintsOneLineForEachCheck) {
  std::ostringstream out;
  print_checks(out, kChecks, false);
  EXPECT_EQ(out.str(),
            "yes  host_backend  always\n"
            "no   nccl          not found\n");
}

TEST(Doctor, ColorsOnlyTheAnswer) {
  std::ostringstream out;
  print_checks(out, std::span(kChecks).last(1), true);
  EXPECT_EQ(out.str(), "\033[33mno   \033[0mnccl          not found\n");
}

TEST(Doctor, ReportHoldsEveryCheck) {
  const nlohmann::ordered_json report = doctor_report(kChecks);
  EXPECT_EQ(report["schema_version"], 1);
  EXPECT_EQ(report["tool"]["version"], DCPSIM_VERSION);
  ASSERT_EQ(report["checks"].size(), 2u);
  EXPECT_EQ(report["checks"][1], nlohmann::ordered_json::parse(
                                     R"({"name":"nccl","available":false,"detail":"not found"})"));
}

}  // namespace
}  // namespace dcp
