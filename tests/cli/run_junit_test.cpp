#include "cli/run_junit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <sstream>

namespace dcp {
namespace {

using boost::property_tree::ptree;
using testing::HasSubstr;

ptree parsed(const std::string& xml) {
  std::istringstream stream(xml);
  ptree tree;
  read_xml(stream, tree);
  return tree.get_child("testsuites");
}

std::string attribute(const ptree& element, const char* name) {
  return element.get<std::string>(std::string("<xmlattr>.") + name);
}

std::vector<ptree> children(const ptree& element, const std::string& name) {
  std::vector<ptree> found;
  for (const auto& [key, child] : element) {
    if (key == name) found.push_back(child);
  }
  return found;
}

StepReport step(int index, const std::string& verb, const std::string& what) {
  StepReport step;
  step.index = index;
  step.verb = verb;
  step.what = what;
  step.seconds = 0.5;
  return step;
}

ScenarioReport report(const std::string& file, const std::string& strategy) {
  ScenarioReport report;
  report.file = file;
  report.strategy = strategy;
  report.seconds = 1;
  report.steps = {step(0, "capture", "all sizes"), step(1, "replay", "short")};
  return report;
}

TEST(RunJunit, HasASuiteForEachFileAndACaseForEachStrategyAndStep) {
  const ptree root = parsed(
      junit_xml(std::vector{report("scenarios/b/x.yaml", "a2a"),
                            report("scenarios/b/x.yaml", "ag_rs"), report("y.yaml", "a2a")}));
  EXPECT_EQ(attribute(root, "tests"), "6");
  EXPECT_EQ(attribute(root, "failures"), "0");
  EXPECT_EQ(attribute(root, "time"), "3.000000");
  const auto suites = children(root, "testsuite");
  ASSERT_EQ(suites.size(), 2u);
  EXPECT_EQ(attribute(suites[0], "name"), "scenarios/b/x.yaml");
  EXPECT_EQ(attribute(suites[0], "tests"), "4");
  EXPECT_EQ(attribute(suites[0], "time"), "2.000000");
  const auto cases = children(suites[0], "testcase");
  ASSERT_EQ(cases.size(), 4u);
  EXPECT_EQ(attribute(cases[3], "classname"), "scenarios.b.x");
  EXPECT_EQ(attribute(cases[3], "name"), "ag_rs: step 1 replay short");
  EXPECT_EQ(attribute(cases[3], "time"), "0.500000");
}

TEST(RunJunit, WhatFellShortIsAFailureWithAllItsText) {
  ScenarioReport failed = report("x.yaml", "a2a");
  failed.status = Status::kFail;
  failed.steps[1].place = {"a.yaml", 12, 5};
  failed.steps[1].problems = {"step: row 1 is off", "failure deadlock: why"};
  const ptree root = parsed(junit_xml(std::vector{failed}));
  EXPECT_EQ(attribute(root, "failures"), "1");
  EXPECT_EQ(attribute(root, "errors"), "0");
  const auto cases = children(children(root, "testsuite")[0], "testcase");
  EXPECT_TRUE(children(cases[0], "failure").empty());
  const auto failures = children(cases[1], "failure");
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(attribute(failures[0], "message"), "step: row 1 is off");
  EXPECT_EQ(failures[0].data(), "a.yaml:12:5\nstep: row 1 is off\nfailure deadlock: why\n");
}

TEST(RunJunit, BadInputIsAnErrorOfItsOwn) {
  ScenarioReport refused;
  refused.file = "x.yaml";
  refused.strategy = "-";
  refused.status = Status::kError;
  refused.bad_input = "x.yaml:1:2: error: no";
  const ptree root = parsed(junit_xml(std::vector{refused}));
  EXPECT_EQ(attribute(root, "tests"), "1");
  EXPECT_EQ(attribute(root, "errors"), "1");
  const auto cases = children(children(root, "testsuite")[0], "testcase");
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_EQ(attribute(children(cases[0], "error").at(0), "message"), "x.yaml:1:2: error: no");
}

TEST(RunJunit, TextsThatXmlCannotHoldAreStillValidXml) {
  ScenarioReport failed = report("a<&>\"'\xFF.yaml", "a2a");
  failed.steps[1].problems = {std::string("]]> <b> & \x01\x1B[31m \xC3\xA9 \xEF\xBF\xBF \xC3(") +
                              '\0'};
  const std::string xml = junit_xml(std::vector{failed});
  EXPECT_THAT(xml, testing::StartsWith("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"));
  const ptree root = parsed(xml);
  const auto suites = children(root, "testsuite");
  EXPECT_EQ(attribute(suites.at(0), "name"), "a<&>\"'\xEF\xBF\xBD.yaml");
  const auto failure = children(children(suites[0], "testcase").at(1), "failure").at(0);
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(failure.data(),
            "\n]]> <b> & " + r + r + "[31m \xC3\xA9 " + r + " " + r + "(" + r + "\n");
  for (const char c : xml) {
    const auto byte = static_cast<unsigned char>(c);
    EXPECT_TRUE(byte >= 0x20 || c == '\n' || c == '\t') << static_cast<int>(byte);
  }
}

}  // namespace
}  // namespace dcp
