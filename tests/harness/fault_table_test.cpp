// docs/FAULTS.md says what each fault scenario ends in.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "core/kinds.hpp"
#include "core/scenario_reader.hpp"

namespace dcp {
namespace {

namespace fs = std::filesystem;

void add_kinds(const Expect& expect, std::set<std::string>& kinds) {
  for (const ExpectedFinding& hazard : expect.hazards) kinds.insert("hazard `" + hazard.kind + "`");
  for (const ExpectedFinding& failure : expect.failures) {
    kinds.insert("failure `" + failure.kind + "`");
  }
  if (expect.error) kinds.insert("error `" + *expect.error + "`");
  for (const auto& [strategy, own] : expect.by_strategy) add_kinds(own, kinds);
}

// Rows of the table, by the scenario's name.
std::map<std::string, std::string> rows_of_table() {
  std::ifstream file(DCPSIM_SOURCE_DIR "/docs/FAULTS.md");
  std::map<std::string, std::string> rows;
  for (std::string line; std::getline(file, line);) {
    const std::size_t begin = line.find(" | `");
    const std::size_t end = line.find("` | ", begin + 4);
    if (begin == std::string::npos || end == std::string::npos) continue;
    rows[line.substr(begin + 4, end - begin - 4)] = line.substr(end);
  }
  return rows;
}

TEST(FaultTable, HasEveryScenarioWithAllThatItExpects) {
  auto rows = rows_of_table();
  std::set<std::string> hazards;
  int num_files = 0;
  for (const auto& entry : fs::directory_iterator(DCPSIM_SOURCE_DIR "/scenarios/faults")) {
    const std::string name = entry.path().stem();
    ++num_files;
    ASSERT_EQ(rows.count(name), 1u) << name;
    std::set<std::string> kinds;
    for (const Step& step : read_scenario(entry.path()).steps) {
      if (step.expect) add_kinds(*step.expect, kinds);
    }
    for (const std::string& kind : kinds) {
      EXPECT_NE(rows[name].find(kind), std::string::npos) << name << ": " << kind;
      if (kind.starts_with("hazard")) hazards.insert(kind);
      EXPECT_FALSE(name.ends_with("-sound") && kind.starts_with("hazard")) << name;
    }
    rows.erase(name);
    const bool is_faulty = std::any_of(kinds.begin(), kinds.end(), [](const std::string& kind) {
      return kind.starts_with("hazard");
    });
    const fs::path twin = entry.path().parent_path() / (name + "-sound.yaml");
    EXPECT_TRUE(!is_faulty || fs::exists(twin)) << name << " has no sound twin";
  }
  for (const auto& [name, row] : rows) ADD_FAILURE() << "no scenario is named " << name;
  EXPECT_GE(num_files, 60);
  EXPECT_GE(hazards.size(), 20u);
}

// All that scenarios of the corpus expect, without what they expect it as.
std::set<std::string> expected_kinds() {
  std::set<std::string> kinds;
  for (const auto& entry : fs::recursive_directory_iterator(DCPSIM_SOURCE_DIR "/scenarios")) {
    const fs::path& path = entry.path();
    if (path.extension() != ".yaml" || path.parent_path().filename() == "rejected") continue;
    std::set<std::string> texts;
    for (const Step& step : read_scenario(path).steps) {
      if (step.expect) add_kinds(*step.expect, texts);
      const auto* together = std::get_if<verb::Together>(&step.verb);
      if (together == nullptr) continue;
      for (const Step& each : together->steps) {
        if (each.expect) add_kinds(*each.expect, texts);
      }
    }
    for (const std::string& text : texts) {
      const std::size_t begin = text.find('`') + 1;
      kinds.insert(text.substr(begin, text.size() - begin - 1));
    }
  }
  return kinds;
}

// Rows "| `kind` | where or why |" of the section on kinds.
std::map<std::string, std::string> kinds_without_scenario() {
  std::ifstream file(DCPSIM_SOURCE_DIR "/docs/FAULTS.md");
  std::map<std::string, std::string> rows;
  bool is_there = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) is_there = line == "## Kinds that no scenario expects";
    if (!is_there || !line.starts_with("| `")) continue;
    const std::size_t end = line.find('`', 3);
    rows[line.substr(3, end - 3)] = line.substr(end + 1);
  }
  return rows;
}

bool file_names(const std::string& path, const std::string& kind) {
  std::ifstream file(DCPSIM_SOURCE_DIR "/" + path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  return text.find('"' + kind + '"') != std::string::npos;
}

// The corpus test holds scenarios to what they expect: an expected kind is one that is found.
TEST(FaultTable, EveryKindIsExpectedByAScenarioOrItIsSaidWhyNot) {
  const std::set<std::string> expected = expected_kinds();
  auto rows = kinds_without_scenario();
  for (const auto kinds : {hazard_kinds(), failure_kinds(), error_kinds()}) {
    for (const Kind& kind : kinds) {
      const std::string name(kind.name);
      EXPECT_NE(expected.count(name), rows.count(name)) << name;
      if (rows.count(name) == 0) continue;
      const std::size_t test = rows[name].find("`tests/");
      if (test != std::string::npos) {
        const std::size_t end = rows[name].find('`', test + 1);
        EXPECT_TRUE(file_names(rows[name].substr(test + 1, end - test - 1), name)) << name;
      }
      rows.erase(name);
    }
  }
  for (const auto& [name, row] : rows) ADD_FAILURE() << name << " is no kind";
}

}  // namespace
}  // namespace dcp
