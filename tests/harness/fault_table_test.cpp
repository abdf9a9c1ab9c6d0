// docs/FAULTS.md says what each fault scenario ends in.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

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

}  // namespace
}  // namespace dcp
