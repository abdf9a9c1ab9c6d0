#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace dcp {
namespace {

class Audit : public test::ProgramTest {
 protected:
  static constexpr const char* kFaulty =
      "world_size: 2\nmodel: tiny\nlayers: 2\nworkspace: growable\ngraph: {capture_sizes: [2, 4]}\n"
      "batches:\n  two: {seq_lens: [5, 3]}\nsteps:\n  - capture: [2]\n  - capture: [4]\n"
      "    expect: {hazards: [stale_pointer]}\n";
  static constexpr const char* kSound =
      "world_size: 2\nmodel: tiny\nlayers: 2\nbatches:\n  two: {seq_lens: [5, 3]}\n";
};

TEST_F(Audit, NamesTheBufferThatAGraphWasLeftOn) {
  write("x.yaml", kFaulty);
  const test::Outcome outcome = run("audit " + path("x.yaml") + " --json " + path("x.json"));
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_NE(outcome.out.find("stale_pointer  step 1, graph g2"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("freed in step 1"), std::string::npos);
  const auto audit = nlohmann::json::parse(text_of("x.json")).at("audits").at(0);
  EXPECT_EQ(audit.at("hazards").at(0).at("buffer"), "workspace");
  EXPECT_EQ(audit.at("hazards").size(), 1u) << "the same on both ranks is one finding";
  EXPECT_EQ(audit.at("hazards").at(0).at("ranks"), (std::vector<int>{0, 1}));
  EXPECT_EQ(audit.at("graphs").size(), 4u);  // two on each rank
}

TEST_F(Audit, SoundGraphsHaveNoFindings) {
  write("x.yaml", kSound);
  const test::Outcome outcome = run("audit " + path("x.yaml"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_NE(outcome.out.find("\n0 findings\n"), std::string::npos);
  EXPECT_NE(outcome.out.find("kv_cache@1"), std::string::npos);
}

TEST_F(Audit, WritesThePageAndTheGraph) {
  write("x.yaml", kFaulty);
  run("audit " + path("x.yaml") + " --html " + path("x.html") + " --dot " + path("x.dot"));
  const std::string html = text_of("x.html");
  EXPECT_NE(html.find("<td class='kind'>stale_pointer</td>"), std::string::npos);
  EXPECT_NE(html.find("<svg"), std::string::npos);
  EXPECT_EQ(html.find("http"), std::string::npos) << "the page loads nothing";
  EXPECT_EQ(html.find("<script"), std::string::npos);
  const std::string dot = text_of("x.dot");
  EXPECT_NE(dot.find("stream comm"), std::string::npos);
  EXPECT_NE(dot.find("\\nstale_pointer"), std::string::npos);
}

TEST_F(Audit, ReadsGraphsOfAnotherProgram) {
  const std::string record =
      R"({"format": "dcpsim-graph", "version": 1, "ranks": [{"allocations": [
           {"name": "<staging>", "address": 4096, "size_bytes": 256, "died": 2}],
           "graphs": [{"name": "g", "captured_at": 1, "nodes": [
             {"op": "pack", "arguments": ["0010000000000000"]}]}]}]})";
  write("g.json", record);
  const test::Outcome outcome =
      run("audit --graph " + path("g.json") + " --html " + path("g.html"));
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_NE(outcome.out.find("1 node declares no accesses"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("stale_pointer"), std::string::npos);
  EXPECT_NE(text_of("g.html").find("&lt;staging&gt;"), std::string::npos);
  EXPECT_EQ(run("audit --graph " + path("g.html")).exit_code, 2);
  EXPECT_EQ(run("audit").exit_code, 2);
  EXPECT_EQ(run("audit --graph " + path("g.json") + " --set layers=2").exit_code, 2);
  EXPECT_EQ(run("run --graph " + path("g.json")).exit_code, 2);
  EXPECT_EQ(run("audit " + path("g.json") + " --graph " + path("g.json")).exit_code, 2);
}

TEST_F(Audit, APageIsOfOneScenario) {
  write("x.yaml", kSound);
  const test::Outcome outcome =
      run("audit " + path("x.yaml") + " --strategy all --html " + path("x.html"));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.out, "") << "said before anything runs";
  EXPECT_NE(outcome.err.find("under one strategy, these are 4"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace dcp
