// dcpsim check, on the stored vectors and on broken copies of a small file.
#include <gmock/gmock.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/safetensors.hpp"
#include "tests/cli/program.hpp"
#include "tests/harness/faulty_engine.hpp"

namespace dcp {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kGolden = DCPSIM_SOURCE_DIR "/tests/data/golden";

// Two ranks that agree on one row of two heads: rank 0 says 1, rank 1 says 2, both with lse 0, so
// the result is 1.5 and the lse 1 in base 2.
Json small_file() {
  const Json ones(16, 0x3F80);
  const Json twos(16, 0x4000);
  const Json zeros = {0, 0};
  Json test = {{"name", "half_way"},
               {"world_size", 2},
               {"num_tokens", 1},
               {"num_heads", 2},
               {"head_dim", 8},
               {"dtype", "bf16"},
               {"lse_base", "2"},
               {"seq_lens", {{3}, {2}}},
               {"query_start_loc", {0, 1}},
               {"partial_out_bits", {ones, twos}},
               {"partial_lse_bits", {zeros, zeros}},
               {"truth_out", Json(16, 1.5)},
               {"truth_lse", {1.0, 1.0}}};
  Json rows[2];
  for (int rank = 0; rank < 2; ++rank) {
    for (int peer = 0; peer < 2; ++peer) {
      for (int i = 0; i < 8; ++i) rows[rank].push_back(rank == 0 ? 0x3F80 : 0x4000);
      rows[rank].push_back(0);
      rows[rank].push_back(0);
    }
  }
  test["seed_send_bits"] = {rows[0], rows[1]};
  return {{"source", "by hand"}, {"cases", {test}}};
}

// What an engine makes of the partials that computes with powers of `base`; the dump says e.
test::DumpCase dump_of(const std::string& base) {
  test::DumpCase dump;
  test::FaultyEngine({.dump = dump, .base = base}).run(dump);
  return dump;
}

class Check : public test::ProgramTest {
 protected:
  void write_dump(const test::DumpCase& dump) const {
    write_safetensors(path("step.safetensors"), dump.file());
  }

  // Runs `check` on `file` and further arguments.
  test::Outcome check(const Json& file, const std::string& arguments = "") const {
    write("vectors.json", file.dump());
    return run("check '" + path("vectors.json") + "' " + arguments);
  }
};

TEST_F(Check, StoredVectorsAreReproduced) {
  const test::Outcome outcome =
      run(std::string("check '") + kGolden + "' --json '" + path("report.json") + "'");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("14 cases, 110 checks passed, 0 failed, 0 files refused"));
  const auto report = Json::parse(text_of("report.json"));
  int num_checks = 0;
  int num_sends = 0;
  for (const Json& file : report["files"]) {
    for (const Json& test : file["cases"]) {
      for (const Json& check : test["checks"]) {
        ++num_checks;
        EXPECT_EQ(check["status"], "pass");
        EXPECT_LE(check["out"]["max_error_over_tolerance"].get<double>(), 1.0);
        if (check["send"].is_null()) continue;
        ++num_sends;
        EXPECT_EQ(check["send"]["equal"], true);
      }
    }
  }
  EXPECT_EQ(num_checks, 110);
  EXPECT_EQ(num_sends, 14);
}

TEST_F(Check, WhereTheSeedIsOutsideItIsShownAndNoFailure) {
  const test::Outcome outcome =
      run(std::string("check '") + kGolden + "' --filter lse_extremes --strategy a2a");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("1 cases, 2 checks passed"));
  EXPECT_THAT(outcome.out, HasSubstr("754.388    0.000  seed outside\n"));
}

TEST_F(Check, VariantsAreShownOnRequest) {
  EXPECT_THAT(check(small_file()).out, Not(HasSubstr("a2a split")));
  const test::Outcome outcome = check(small_file(), "--verbose");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  for (const char* row : {"ag_rs fp32", "ag_ar fp32", "a2a split", "direct fused"}) {
    EXPECT_THAT(outcome.out, HasSubstr(row));
  }
}

TEST_F(Check, AnotherTruthFailsAndNamesCaseAndElement) {
  Json file = small_file();
  file["cases"][0]["truth_out"][11] = 1.625;
  const test::Outcome outcome = check(file, "--strategy a2a");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("FAIL  half_way"));
  EXPECT_THAT(outcome.out, HasSubstr(path("vectors.json") +
                                     ": half_way, a2a: out of rank 1, row 0, head 1, element 3: "
                                     "got 1.5, want 1.625\n"));
  EXPECT_THAT(outcome.out, HasSubstr("a2a split: out of rank 1"));
  EXPECT_THAT(outcome.out, HasSubstr(" --filter half_way --strategy a2a --seed 1\n"));
}

TEST_F(Check, AnotherTruthOfTheLseFails) {
  for (const Json& truth : {Json(1.0001), Json(nullptr), Json("-inf"), Json("inf")}) {
    Json file = small_file();
    file["cases"][0]["truth_lse"][1] = truth;
    const test::Outcome outcome = check(file);
    EXPECT_EQ(outcome.exit_code, 1) << truth;
    EXPECT_THAT(outcome.out, HasSubstr("half_way, ag_ar: lse of rank 0, row 0, head 1: got 1,"));
  }
}

// 0 is not NaN either.
TEST_F(Check, NoResultIsRightWhereTheTruthIsNan) {
  Json file = small_file();
  Json& half_way = file["cases"][0];
  half_way.erase("seed_send_bits");
  half_way["partial_out_bits"] = {Json(16, 0), Json(16, 0)};
  half_way["truth_out"] = Json(16, 0.0);
  EXPECT_EQ(check(file).exit_code, 0);
  half_way["truth_out"][0] = nullptr;
  const test::Outcome outcome = check(file);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("out of rank 0, row 0, head 0, element 0: got 0, want nan\n"));
}

TEST_F(Check, OneWrongBitOfTheSendBufferFails) {
  Json file = small_file();
  file["cases"][0]["seed_send_bits"][1][18] = 1;  // low half of the lse that goes to rank 1
  const test::Outcome outcome = check(file);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("half_way, a2a: send buffer of rank 1 to rank 1, row 0, head "
                                     "1, lane 8: got 0x0, want 0x1\n"));
}

TEST_F(Check, WhatTheSeedMadeMayBeMissing) {
  Json file = small_file();
  file["cases"][0].erase("seed_send_bits");
  const test::Outcome outcome = check(file);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, Not(HasSubstr("equal")));
}

TEST_F(Check, FilesOfAnotherFormAreRefusedWithThePlace) {
  struct Fault {
    std::string message;
    std::function<void(Json& file, Json& test)> make;
  };
  const std::vector<Fault> faults = {
      {"/cases/0/partial_out_bits/1: 16 integers expected, 15 found",
       [](Json&, Json& test) { test["partial_out_bits"][1].erase(3); }},
      {"/cases/0/partial_out_bits/0/2: an integer in 0 .. 65535 expected, 65536 found",
       [](Json&, Json& test) { test["partial_out_bits"][0][2] = 65536; }},
      {"/cases/0/partial_lse_bits/1/0: an integer in 0 .. 4294967295 expected, -1 found",
       [](Json&, Json& test) { test["partial_lse_bits"][1][0] = -1; }},
      {"/cases/0/partial_lse_bits/1/0: an integer in 0 .. 4294967295 expected, 0.5 found",
       [](Json&, Json& test) { test["partial_lse_bits"][1][0] = 0.5; }},
      {"/cases/0/partial_lse_bits: 2 lists (one per rank) expected, 3 found",
       [](Json&, Json& test) { test["partial_lse_bits"].push_back(Json::array()); }},
      {"/cases/0/seed_send_bits/0: an array of 20 integers expected, string found",
       [](Json&, Json& test) { test["seed_send_bits"][0] = "none"; }},
      {"/cases/0/truth_out/15: a number, \"inf\", \"-inf\" or null expected, string found",
       [](Json&, Json& test) { test["truth_out"][15] = "nan"; }},
      {"/cases/0/dtype: fp16, bf16 or fp32 expected, 'fp64' found",
       [](Json&, Json& test) { test["dtype"] = "fp64"; }},
      {"/cases/0/lse_base: \"e\" or \"2\" expected, '10' found",
       [](Json&, Json& test) { test["lse_base"] = "10"; }},
      {"/cases/0/lse_base: a string expected, 2 found",
       [](Json&, Json& test) { test["lse_base"] = 2; }},
      {"/cases/0/world_size: an integer in 1 .. 64 expected, 65 found",
       [](Json&, Json& test) { test["world_size"] = 65; }},
      {"/cases/0/world_size: an integer in 1 .. 64 expected, 0 found",
       [](Json&, Json& test) { test["world_size"] = 0; }},
      {"/cases/0/num_heads: a multiple of world_size 2 expected, 3 found",
       [](Json&, Json& test) { test["num_heads"] = 3; }},
      {"/cases/0/head_dim: a multiple of 8 expected, 12 found",
       [](Json&, Json& test) { test["head_dim"] = 12; }},
      {"/cases/0: the field 'num_tokens' is missing",
       [](Json&, Json& test) { test.erase("num_tokens"); }},
      {"/cases/0: unknown field 'seed_sent_bits' (did you mean 'seed_send_bits'?)",
       [](Json&, Json& test) { test["seed_sent_bits"] = 1; }},
      {"/cases/0/query_start_loc: null, although seq_lens is given",
       [](Json&, Json& test) { test["query_start_loc"] = nullptr; }},
      {"/cases/0/seq_lens: null, although query_start_loc is given",
       [](Json&, Json& test) { test["seq_lens"] = nullptr; }},
      {"/cases/0/query_start_loc/0: an integer in 0 .. 0 expected, 1 found",
       [](Json&, Json& test) {
         test["query_start_loc"] = {1, 1};
       }},
      {"/cases/0/query_start_loc/1: an integer in 0 .. 1 expected, 2 found",
       [](Json&, Json& test) {
         test["query_start_loc"] = {0, 2};
       }},
      {"/cases/0/seq_lens/1: 1 integers expected, 2 found",
       [](Json&, Json& test) {
         test["seq_lens"][1] = {1, 1};
       }},
      {"/cases/0/seq_lens/1/0: an integer in 0 .. 2147483647 expected, -3 found",
       [](Json&, Json& test) { test["seq_lens"][1][0] = -3; }},
      {"/cases/0/name: control characters in a name",
       [](Json&, Json& test) { test["name"] = "a\nb"; }},
      {"/cases/0: an object expected, array found", [](Json&, Json& test) { test = {1}; }},
      {"/cases: at least one case expected, none found",
       [](Json& file, Json&) { file["cases"] = Json::array(); }},
      {"the field 'cases' is missing", [](Json& file, Json&) { file.erase("cases"); }},
      {"an object expected, array found", [](Json& file, Json&) { file = Json::array(); }},
  };
  for (const Fault& fault : faults) {
    Json file = small_file();
    fault.make(file, file["cases"][0]);
    const test::Outcome outcome = check(file);
    EXPECT_EQ(outcome.exit_code, 2) << fault.message;
    const std::string place = fault.message.starts_with("/") ? "" : ":1:1";
    EXPECT_THAT(outcome.out,
                HasSubstr("vectors.json" + place + ": error: " + fault.message + "\n"));
  }
}

TEST_F(Check, WhatIsNotJsonIsRefusedWithLineAndColumn) {
  for (const auto& [text, message] :
       {std::pair{"{\"cases\": [\n  {\"name\": \"x\",}\n]}",
                  "vectors.json:2:16: error: not JSON: "},
        std::pair{"", "vectors.json:1:1: error: not JSON: "},
        std::pair{"{\"cases\": \"\xFF\"}", "vectors.json:1:12: error: not JSON: "},
        std::pair{"{\"cases\": [1e999]}", "vectors.json:1:16: error: not JSON: "}}) {
    write("vectors.json", text);
    const test::Outcome outcome =
        run("check '" + path("vectors.json") + "' --json '" + path("report.json") + "'");
    EXPECT_EQ(outcome.exit_code, 2) << text;
    EXPECT_THAT(outcome.out, HasSubstr(message));
    EXPECT_THAT(Json::parse(text_of("report.json"))["files"][0]["error"].get<std::string>(),
                HasSubstr(message));
  }
}

TEST_F(Check, ABrokenFileDoesNotHideTheOthers) {
  write("a.json", "{}");
  write("b.json", small_file().dump());
  write("c.safetensors", "");
  const test::Outcome outcome = run("check '" + path("") + "'");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.out, HasSubstr("REFUSED  " + path("a.json") + "\n"));
  EXPECT_THAT(outcome.out,
              HasSubstr("c.safetensors: error: 8 bytes with the length of the header expected\n"));
  EXPECT_THAT(outcome.out, HasSubstr("1 cases, 8 checks passed, 0 failed, 2 files refused"));
}

TEST_F(Check, AnEngineThatIsRightPasses) {
  write_dump(dump_of("e"));
  const test::Outcome outcome = run("check '" + path("step.safetensors") + "'");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("step.safetensors: a test\n"));
  EXPECT_THAT(outcome.out, HasSubstr("pass  step                      engine"));
  EXPECT_THAT(outcome.out, HasSubstr("1 cases, 9 checks passed, 0 failed"));
}

TEST_F(Check, AnEngineThatIsWrongFailsAndItsFaultIsNamed) {
  write_dump(dump_of("2"));
  const test::Outcome outcome =
      run("check '" + path("step.safetensors") + "' --json '" + path("report.json") + "'");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("FAIL  step                      engine"));
  EXPECT_THAT(outcome.out, HasSubstr("step, engine: out of rank 0, row 0, head 0, element 0: got"));
  EXPECT_THAT(outcome.out,
              HasSubstr("      reproduced by wrong_base: the lse, in base e, was taken "
                        "for base 2\n      reproduce: ./dcpsim check "));
  EXPECT_THAT(outcome.out, HasSubstr("1 cases, 8 checks passed, 1 failed"));
  const auto report = Json::parse(text_of("report.json"));
  const Json& engine = report["files"][0]["cases"][0]["engine"];
  EXPECT_EQ(engine["status"], "fail");
  EXPECT_EQ(engine["explanations"][0]["name"], "wrong_base");
  EXPECT_EQ(engine["explanations"].size(), 1u);
  EXPECT_GT(engine["out"]["max_error_over_tolerance"].get<double>(), 1.0);
}

TEST_F(Check, AnEngineWithoutAKnownFaultIsSaidToBeUnexplained) {
  test::DumpCase dump = dump_of("e");
  dump.out[3] += 1;
  write_dump(dump);
  const test::Outcome outcome = run("check '" + path("step.safetensors") + "'");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("none of the known faults reproduces these numbers\n"));
}

TEST_F(Check, FilesOfRanksAreOneDumpInWhateverOrder) {
  const test::DumpCase dump = dump_of("e");
  std::string files;
  for (const int rank : {2, 0, 3, 1}) {
    const std::string file = "step.rank-" + std::to_string(rank) + ".safetensors";
    write_safetensors(path(file), dump.file_of_rank(rank));
    files += " '" + path(file) + "'";
  }
  for (const std::string& paths : {files, " '" + path("") + "'"}) {
    const test::Outcome outcome = run("check" + paths);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("1 cases, 9 checks passed, 0 failed"));
  }
  std::filesystem::remove(path("step.rank-1.safetensors"));
  const test::Outcome outcome = run("check '" + path("") + "'");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.out, HasSubstr("step.rank-0.safetensors: error: one file per rank, as its "
                                     "name says: rank 1 is missing\n"));
}

// Two layers in two ubatches; rows that are empty on a rank hold NaN, and their own rank's bound
// masks them.
constexpr const char* kDumped = R"(schema: 1
world_size: 2
model: tiny
layers: 2
strategy: [ag_rs, ag_ar, a2a, direct]
graph: {capture_sizes: [2], ubatches: 2}
batches:
  pair: {seq_lens: [5, 2], query_start_loc: [0, 1, 2]}
  many: {seq_lens: [5, 3, 2], query_start_loc: [0, 1, 4, 5]}
steps:
  - stub_attention: poison_empty
  - capture: all
  - replay: pair
  - eager: many
)";

TEST_F(Check, StepsThatRunDumpsAreReadBackLayerByLayer) {
  write("run.yaml", kDumped);
  const std::string dump = "run '" + path("run.yaml") + "' --dump '" + path("dump") + "'";
  ASSERT_EQ(run(dump).exit_code, 0) << text_of("out") << text_of("err");
  const test::Outcome outcome = run("check '" + path("dump") + "'");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  // Four strategies, two steps, two layers.
  EXPECT_THAT(outcome.out, HasSubstr("16 cases, 144 checks passed, 0 failed, 0 files refused"));
  EXPECT_THAT(outcome.out, HasSubstr("pass  step-3.layer-1            engine"));
  const test::Outcome one = run("check '" + path("dump/run/a2a") + "' --filter step-2.layer-1");
  EXPECT_THAT(one.out, HasSubstr("1 cases, 9 checks passed, 0 failed"));
}

TEST_F(Check, AWrongResultInADumpOfARunIsFoundInItsLayer) {
  write("run.yaml", kDumped);
  ASSERT_EQ(run("run '" + path("run.yaml") + "' --strategy a2a " + "--dump '" + path("dump") + "'")
                .exit_code,
            0);
  const std::string file = path("dump/step-3.rank-1.safetensors");
  TensorFile changed = read_safetensors(file);
  for (StoredTensor& tensor : changed.tensors) {
    if (tensor.name == "out") tensor.bytes.back() ^= std::byte{0x80};  // the last layer's last row
  }
  write_safetensors(file, changed);
  const test::Outcome outcome = run("check '" + path("dump") + "'");
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("FAIL  step-3.layer-1            engine"));
  EXPECT_THAT(outcome.out, HasSubstr("4 cases, 35 checks passed, 1 failed"));
}

TEST_F(Check, ResultsOfContextAndNewTokensAreNotHeldToTheContextsPartials) {
  write("run.yaml", R"(schema: 1
world_size: 2
model: {attention: gqa, num_heads: 4, num_kv_heads: 2, head_dim: 8}
attention_split: context_then_new
batches: {mixed: {seq_lens: [5, 3], query_start_loc: [0, 2, 5]}}
steps: [stub_attention: poison_empty, eager: mixed]
)");
  ASSERT_EQ(run("run '" + path("run.yaml") + "' --dump '" + path("dump") + "'").exit_code, 0)
      << text_of("out");
  const test::Outcome outcome = run("check '" + path("dump") + "'");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("1 cases, 8 checks passed, 0 failed"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("engine")));
}

TEST_F(Check, InputsAndReferenceOfAStepAreNoDumpByThemselves) {
  write("run.yaml", kDumped);
  ASSERT_EQ(run("run '" + path("run.yaml") + "' --strategy a2a " + "--dump '" + path("dump") + "'")
                .exit_code,
            0);
  const test::Outcome outcome = run("check '" + path("dump/step-2.inputs.safetensors") + "'");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.out, HasSubstr("the tensor 'partial_out' is missing: it is in the files of "
                                     "the step's ranks, step-2.rank-<r>.safetensors"));
}

TEST_F(Check, AStepWithoutRowsIsPassedOver) {
  write("run.yaml", R"(world_size: 2
model: tiny
batches: {none: {seq_lens: [0], query_start_loc: [0, 0]}, some: {seq_lens: [5, 3]}}
steps: [eager: some, eager: none]
)");
  ASSERT_EQ(run("run '" + path("run.yaml") + "' --dump '" + path("dump") + "'").exit_code, 0);
  const test::Outcome outcome = run("check '" + path("dump") + "'");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("no rows  " + path("dump/step-1.rank-0.safetensors") + "\n"));
  EXPECT_THAT(outcome.out, HasSubstr("1 cases, 9 checks passed, 0 failed, 0 files refused"));
  const test::Outcome alone = run("check '" + path("dump") + "' --filter step-1");
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_EQ(alone.err, "dcpsim: error: no step has rows, so nothing was checked\n");
}

TEST_F(Check, AFilterWithoutACaseIsBadUsage) {
  const test::Outcome outcome = check(small_file(), "--filter nothing");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err, "dcpsim: error: no case matches the filter\n");
}

TEST_F(Check, AFieldThatIsThereTwiceIsRefused) {
  write("v.json", R"({"cases": [{"name": "x", "dtype": "bf16", "dtype": "fp32"}], "source": "s"})");
  const test::Outcome outcome = run("check '" + path("v.json") + "'");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.out,
              HasSubstr(path("v.json") + ": error: /cases/0: the field 'dtype' is there twice"));
}

TEST_F(Check, AFolderWithoutInputsNamesWhatCounts) {
  std::filesystem::create_directory(path("empty"));
  const test::Outcome outcome = run("check '" + path("empty") + "'");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err, path("empty") + ": error: no .json or .safetensors file below\n");
}

TEST_F(Check, ScenarioKeysDoNotApply) {
  const test::Outcome outcome = check(small_file(), "--set world_size=2");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err, "dcpsim: error: '--set' does not apply to 'check'\n");
}

}  // namespace
}  // namespace dcp
