#include "cli/list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>

#include "core/error.hpp"
#include "core/scenario_reader.hpp"
#include "core/supported.hpp"

namespace dcp {
namespace {

using testing::Contains;
using testing::ElementsAreArray;
using testing::HasSubstr;

std::vector<std::string> names_of(std::string_view title) {
  const std::vector<ListSection> sections = known_words();
  const auto section = std::ranges::find(sections, title, &ListSection::title);
  std::vector<std::string> names;
  if (section == sections.end()) return names;
  for (const ListEntry& entry : section->entries) names.push_back(entry.name);
  return names;
}

// Identifiers of the table rows under a heading of docs/KINDS.md, in order.
std::vector<std::string> documented_kinds(const std::string& heading) {
  std::ifstream file(DCPSIM_SOURCE_DIR "/docs/KINDS.md");
  const std::regex row("\\| `(\\w+)` \\| .+");
  std::vector<std::string> names;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) inside = line == "## " + heading;
    std::smatch match;
    if (inside && std::regex_match(line, match, row)) names.push_back(match[1]);
  }
  return names;
}

TEST(List, KindsAreThoseOfTheDocumentation) {
  for (const auto& [heading, title] :
       {std::pair("Hazards", "hazards"), {"Failures", "failures"}, {"Errors", "errors"}}) {
    const std::vector<std::string> documented = documented_kinds(heading);
    EXPECT_FALSE(documented.empty()) << heading;
    EXPECT_THAT(names_of(title), ElementsAreArray(documented)) << heading;
  }
}

TEST(List, OtherNamesOfFaultsLeadToKinds) {
  std::ifstream file(DCPSIM_SOURCE_DIR "/docs/KINDS.md");
  const std::regex row("\\| `\\w+` \\| `(\\w+)` \\| .+");
  int count = 0;
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, row)) continue;
    ++count;
    bool is_kind = false;
    for (const char* title : {"hazards", "failures", "errors"}) {
      const auto names = names_of(title);
      is_kind = is_kind || std::ranges::find(names, match[1].str()) != names.end();
    }
    EXPECT_TRUE(is_kind) << line;
  }
  EXPECT_GT(count, 20);
}

// Settings under the README's heading: "- `KEY: VALUE`".
TEST(List, WhatIsNotSupportedIsMarkedAsInTheReadme) {
  std::ifstream file(DCPSIM_SOURCE_DIR "/scenarios/README.md");
  const std::regex item("- `([^`]+)`");
  std::vector<std::string> documented;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) inside = line == "## Not supported yet";
    std::smatch match;
    if (inside && std::regex_match(line, match, item)) documented.push_back(match[1]);
  }
  std::vector<std::string> listed;
  for (const ListSection& section : known_words()) {
    for (const ListEntry& entry : section.entries) {
      if (section.title == "not supported yet") listed.push_back(entry.name + ": " + entry.about);
    }
  }
  EXPECT_THAT(documented, testing::UnorderedElementsAreArray(listed));
}

// A kind that is not listed cannot be expected by a scenario.
TEST(List, KindsThatTheSourcesThrowAreListed) {
  const std::regex thrown("(StepError|Failure)\\(\\s*\"(\\w+)\"");
  const std::map<std::string, std::string> title_of = {{"StepError", "errors"},
                                                       {"Failure", "failures"}};
  int count = 0;
  for (const char* folder :
       {"kernels", "runtime", "comm", "strategies", "engine", "harness", "cli"}) {
    const std::string root = DCPSIM_SOURCE_DIR "/" + std::string(folder);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (entry.path().extension() != ".cpp") continue;
      std::ifstream file(entry.path());
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      for (std::sregex_iterator match(text.begin(), text.end(), thrown), end; match != end;
           ++match, ++count) {
        EXPECT_THAT(names_of(title_of.at((*match)[1])), Contains((*match)[2].str()))
            << entry.path();
      }
    }
  }
  EXPECT_GT(count, 20);
}

// The reader lists the verbs that it knows where a step has none: "one of capture, replay, ...".
TEST(List, StepsAreTheVerbsThatTheReaderKnows) {
  std::string joined;
  for (const std::string& name : names_of("steps")) joined += (joined.empty() ? "" : ", ") + name;
  try {
    parse_scenario(
        "x.yaml",
        "world_size: 1\nmodel: tiny\nbatches: {b: {seq_lens: [3]}}\nsteps: [{name: a}]\n");
    FAIL() << "a step without a verb was accepted";
  } catch (const InputError& error) {
    EXPECT_TRUE(error.message().ends_with("one of " + joined)) << error.what();
  }
}

TEST(List, EveryModelIsAcceptedByTheReader) {
  ASSERT_THAT(names_of("models"), Contains("tiny"));
  for (const std::string& name : names_of("models")) {
    const Scenario scenario = parse_scenario(
        "x.yaml", "world_size: 1\nmodel: " + name + "\nbatches: {b: {seq_lens: [3]}}\n");
    EXPECT_EQ(scenario.model.preset, name);
  }
}

TEST(List, EveryWordIsExplainedAndNamedOnce) {
  for (const ListSection& section : known_words()) {
    EXPECT_FALSE(section.entries.empty()) << section.title;
    if (section.title == "not supported yet") continue;  // a key has several cases
    std::vector<std::string> names = names_of(section.title);
    std::ranges::sort(names);
    EXPECT_EQ(std::ranges::adjacent_find(names), names.end()) << section.title;
    for (const ListEntry& entry : section.entries) EXPECT_NE(entry.about, "") << entry.name;
  }
}

TEST(List, EntriesStandInColumnsUnderTheirTitle) {
  const std::vector<ListSection> sections = {
      {"models", {{"tiny", "small"}, {"deepseek", "large"}}}};
  std::ostringstream out;
  print_sections(out, sections);
  EXPECT_EQ(out.str(), "models:\n  tiny      small\n  deepseek  large\n\n");
}

TEST(List, ReportHasOneKeyForEachSection) {
  const std::vector<ListSection> sections = {{"models", {{"tiny", "small"}}}, {"set", {}}};
  const nlohmann::ordered_json report = list_report(sections);
  EXPECT_EQ(report["schema_version"], 1);
  EXPECT_EQ(report["models"].dump(), R"([{"name":"tiny","about":"small"}])");
  EXPECT_EQ(report["set"].dump(), "[]");
}

}  // namespace
}  // namespace dcp
