#include "harness/step_dump.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>

#include "core/scenario_reader.hpp"
#include "strategies/registry.hpp"
#include "tests/temp_folder.hpp"

namespace dcp {
namespace {

namespace fs = std::filesystem;
using Shape = std::vector<std::int64_t>;
using testing::ElementsAre;

constexpr const char* kScenario = R"(schema: 1
world_size: 2
model: tiny
layers: 2
dtype: bf16
lse: {base: 2}
graph: {capture_sizes: [4]}
batches:
  mixed: {seq_lens: [5, 3], query_start_loc: [0, 1, 3]}
steps:
  - capture: all
  - replay: mixed
  - poison: partial_out
  - eager: mixed
)";

class StepDumpTest : public testing::Test {
 protected:
  ScenarioReport run(const std::string& text, const char* strategy = "a2a") {
    const Scenario scenario = parse_scenario("test.yaml", text);
    RunOptions options{.seed = 3, .dump_folder = folder_ / "new"};
    options.overrides = {{"layers", "2"}};
    return run_scenario(scenario, *find_strategy(strategy), options);
  }

  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / "new")) {
      names.insert(entry.path().filename());
    }
    return names;
  }

  TensorFile file(const std::string& name) const {
    return read_safetensors((folder_ / "new" / (name + ".safetensors")).string());
  }

  const test::TempFolder temp_;
  const fs::path& folder_ = temp_.path();
};

std::map<std::string, Shape> shapes(const TensorFile& file) {
  std::map<std::string, Shape> shapes;
  for (const StoredTensor& tensor : file.tensors) shapes[tensor.name] = tensor.shape;
  return shapes;
}

// The elements as double, whatever their dtype.
std::vector<double> doubles(const TensorFile& file, const std::string& name) {
  const StoredTensor& tensor = *file.find(name);
  if (tensor.dtype == StoredDType::kF64) return values_of<double>(tensor);
  const DType dtype = tensor.dtype == StoredDType::kBf16 ? DType::kBf16 : DType::kFp32;
  std::vector<double> values(tensor.bytes.size() / size_bytes(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = load_element(tensor.bytes.data(), dtype, i);
  }
  return values;
}

TEST_F(StepDumpTest, OnlyStepsThatComputeAreDumped) {
  EXPECT_EQ(run(kScenario).status, Status::kPass);
  std::set<std::string> expected;
  for (const char* step : {"step-1.", "step-3."}) {
    for (const char* part : {"inputs", "rank-0", "rank-1", "reference"}) {
      expected.insert(std::string(step) + part + ".safetensors");
    }
  }
  EXPECT_EQ(files(), expected);
}

TEST_F(StepDumpTest, TensorsHaveTheNamesAndShapesOfTheFormat) {
  run(kScenario);
  EXPECT_EQ(shapes(file("step-1.inputs")),
            (std::map<std::string, Shape>{{"q", {2, 4, 8, 24}},
                                          {"k.0.0", {5, 24}},
                                          {"k.0.1", {3, 24}},
                                          {"k.1.0", {5, 24}},
                                          {"k.1.1", {3, 24}},
                                          {"v.0.0", {5, 16}},
                                          {"v.0.1", {3, 16}},
                                          {"v.1.0", {5, 16}},
                                          {"v.1.1", {3, 16}},
                                          {"seq_lens", {2}},
                                          {"query_start_loc", {3}}}));
  EXPECT_EQ(shapes(file("step-1.rank-1")),
            (std::map<std::string, Shape>{{"partial_out", {2, 4, 8, 16}},
                                          {"partial_lse", {2, 4, 8}},
                                          {"send", {2, 4, 4, 18}},
                                          {"recv", {2, 4, 4, 18}},
                                          {"out", {2, 4, 4, 16}},
                                          {"lse", {2, 4, 4}},
                                          {"seq_lens", {2}},
                                          {"query_start_loc", {3}}}));
  EXPECT_EQ(shapes(file("step-1.reference")),
            (std::map<std::string, Shape>{{"out", {2, 4, 8, 16}}, {"lse", {2, 4, 8}}}));
  EXPECT_EQ(file("step-3.inputs").find("q")->shape, (Shape{2, 3, 8, 24}));  // eager: no padding
}

TEST_F(StepDumpTest, AStrategyThatKeepsAllHeadsDumpsAllAndWhatIsNotReturnedIsAbsent) {
  run(std::string(kScenario) + "return_lse: false\n", "ag_ar");
  const auto rank = shapes(file("step-1.rank-0"));
  EXPECT_EQ(rank.at("out"), (Shape{2, 4, 8, 16}));
  EXPECT_EQ(rank.at("send"), (Shape{4, 8, 16}));
  EXPECT_EQ(rank.count("lse"), 0u);
  EXPECT_EQ(rank.count("recv"), 0u);
}

TEST_F(StepDumpTest, LengthsAreGlobalInTheInputsAndLocalOnARank) {
  run(kScenario);
  const auto integers = [&](const char* part, const char* name) {
    return values_of<std::int32_t>(*file(part).find(name));
  };
  EXPECT_THAT(integers("step-1.inputs", "seq_lens"), ElementsAre(5, 3));
  EXPECT_THAT(integers("step-1.inputs", "query_start_loc"), ElementsAre(0, 1, 3));
  EXPECT_THAT(integers("step-1.rank-0", "seq_lens"), ElementsAre(3, 2));
  EXPECT_THAT(integers("step-1.rank-1", "seq_lens"), ElementsAre(2, 1));
}

TEST_F(StepDumpTest, EveryFileSaysWhatRan) {
  run(kScenario);
  for (const std::string& name : files()) {
    const auto metadata = file(fs::path(name).stem()).metadata;
    EXPECT_EQ(metadata,
              (std::map<std::string, std::string>{{"scenario", kScenario},
                                                  {"strategy", "a2a"},
                                                  {"seed", "7"},
                                                  {"order_seed", "3"},
                                                  {"softmax_scale", "0.20412414523193154"},
                                                  {"lse_base", "2"},
                                                  {"dtype", "bf16"},
                                                  {"world_size", "2"},
                                                  {"attention", "mla"},
                                                  {"attention_split", "none"},
                                                  {"combined_by", "a2a"},
                                                  {"interleave", "1"},
                                                  {"set", "layers=2\n"}}));
  }
}

// Four rows do not fit in the direct exchange's room of two.
TEST_F(StepDumpTest, AFileSaysWhatCombinedWhereTheStrategyFellBack) {
  run(R"(schema: 1
world_size: 2
model: tiny
direct: {fallback: ag_rs}
graph: {max_num_tokens: 2}
batches:
  two: {seq_lens: [5, 3]}
  four: {seq_lens: [5, 3, 2, 7], local_seq_lens: [[2, 1, 1, 7], [3, 2, 1, 0]]}
steps:
  - eager: two
  - eager: four
)",
      "direct");
  EXPECT_EQ(file("step-0.rank-0").metadata.at("combined_by"), "direct");
  EXPECT_EQ(file("step-1.rank-0").metadata.at("combined_by"), "ag_rs");
  EXPECT_EQ(file("step-1.rank-0").metadata.at("strategy"), "direct");
  // Keys that were dealt by hand follow no interleave.
  EXPECT_EQ(file("step-0.rank-0").metadata.count("interleave"), 1u);
  EXPECT_EQ(file("step-1.rank-0").metadata.count("interleave"), 0u);
}

// Row 2 is the last token of request 1 and sees its 3 keys; row 1 sees 2 of them.
TEST_F(StepDumpTest, ARowCanBeComputedFromTheInputs) {
  run(kScenario);
  const TensorFile inputs = file("step-1.inputs");
  const TensorFile reference = file("step-1.reference");
  const auto q = doubles(inputs, "q");
  for (const auto& [row, num_keys] : std::map<std::size_t, std::size_t>{{1, 2}, {2, 3}}) {
    for (const std::size_t layer : {0, 1}) {
      const std::string place = std::to_string(layer) + ".1";
      const auto k = doubles(inputs, "k." + place);
      const auto v = doubles(inputs, "v." + place);
      const std::size_t head = (layer * 4 + row) * 8 + 5;
      double sum = 0, out = 0;
      for (std::size_t key = 0; key < num_keys; ++key) {
        double score = 0;
        for (std::size_t i = 0; i < 24; ++i) score += q[head * 24 + i] * k[key * 24 + i];
        const double weight = std::exp(score / std::sqrt(24.0));
        sum += weight;
        out += weight * v[key * 16 + 9];
      }
      EXPECT_NEAR(doubles(reference, "out")[head * 16 + 9], out / sum, 1e-12);
      EXPECT_NEAR(doubles(reference, "lse")[head], std::log2(sum), 1e-12);
      // Head 5 is head 1 of rank 1.
      const TensorFile rank = file("step-1.rank-1");
      const std::size_t own = (layer * 4 + row) * 4 + 1;
      EXPECT_NEAR(doubles(rank, "out")[own * 16 + 9], out / sum, 0.02 * (1 + std::abs(out / sum)));
      EXPECT_NEAR(doubles(rank, "lse")[own], std::log2(sum), 1e-4);
    }
  }
}

constexpr const char* kGqaScenario = R"(schema: 1
world_size: 2
tensor_parallel_size: 2
model: {attention: gqa, num_heads: 4, num_kv_heads: 2, head_dim: 8}
dtype: fp32
batches:
  mixed: {seq_lens: [5, 3]}
steps:
  - eager: mixed
)";

TEST_F(StepDumpTest, GqaKeysAndValuesAreApartByKvHead) {
  EXPECT_EQ(run(kGqaScenario).status, Status::kPass);
  const TensorFile inputs = file("step-0.inputs");
  EXPECT_EQ(inputs.find("k.0.0")->shape, (Shape{5, 2, 8}));
  EXPECT_EQ(inputs.find("v.0.1")->shape, (Shape{3, 2, 8}));
  EXPECT_EQ(inputs.metadata.at("attention"), "gqa");
  // Row 1, head 3, which reads KV head 1: the 3 keys of request 1.
  const auto q = doubles(inputs, "q");
  const auto k = doubles(inputs, "k.0.1");
  const auto v = doubles(inputs, "v.0.1");
  const std::size_t head = 1 * 4 + 3;
  double sum = 0, out = 0;
  for (std::size_t key = 0; key < 3; ++key) {
    const std::size_t row = (key * 2 + 1) * 8;
    double score = 0;
    for (std::size_t i = 0; i < 8; ++i) score += q[head * 8 + i] * k[row + i];
    sum += std::exp(score / std::sqrt(8.0));
    out += std::exp(score / std::sqrt(8.0)) * v[row + 6];
  }
  EXPECT_NEAR(doubles(file("step-0.reference"), "out")[head * 8 + 6], out / sum, 1e-12);
}

constexpr const char* kUbatches = R"(schema: 1
world_size: 2
model: tiny
layers: 2
graph: {capture_sizes: [4], ubatches: 2}
batches:
  four: {seq_lens: [5, 3, 2, 7]}
steps:
  - capture: all
  - replay: four
)";

// Their packed rows are two buffers of their own; all else is one step.
TEST_F(StepDumpTest, UbatchesAreOneStepButForTheirExchange) {
  EXPECT_EQ(run(kUbatches).status, Status::kPass);
  const auto rank = shapes(file("step-1.rank-0"));
  EXPECT_EQ(rank.at("partial_out"), (Shape{2, 4, 8, 16}));
  EXPECT_EQ(rank.at("send.0"), (Shape{2, 2, 4, 18}));
  EXPECT_EQ(rank.at("recv.1"), (Shape{2, 2, 4, 18}));
  EXPECT_EQ(rank.count("send"), 0u);
  const auto two_out = doubles(file("step-1.rank-0"), "out");
  const auto two_query = doubles(file("step-1.inputs"), "q");
  std::string one_ubatch = kUbatches;
  one_ubatch.replace(one_ubatch.find("ubatches: 2"), 11, "ubatches: 1");
  EXPECT_EQ(run(one_ubatch).status, Status::kPass);
  EXPECT_EQ(doubles(file("step-1.rank-0"), "out"), two_out);
  EXPECT_EQ(doubles(file("step-1.inputs"), "q"), two_query);
}

// The reference's verdict is lifted, its numbers are wanted all the same.
TEST_F(StepDumpTest, AStepThatIsNotCheckedHasAReferenceToo) {
  const ScenarioReport report =
      run(std::string(kScenario) + "  - {replay: mixed, expect: {error: capacity}}\n");
  EXPECT_EQ(report.status, Status::kFail);
  EXPECT_TRUE(report.steps.back().checks.empty());
  const auto checked = doubles(file("step-1.reference"), "out");
  EXPECT_EQ(doubles(file("step-4.reference"), "out"), checked);
}

TEST_F(StepDumpTest, AFolderThatCannotBeCreatedIsBadInput) {
  std::ofstream(folder_ / "new") << "a file";
  const ScenarioReport report = run(kScenario);
  EXPECT_EQ(report.status, Status::kError);
  EXPECT_THAT(report.bad_input, testing::HasSubstr("cannot create this folder"));
}

}  // namespace
}  // namespace dcp
