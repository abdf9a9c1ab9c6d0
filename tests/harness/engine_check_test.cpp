// Every known fault, planted in an engine of plain loops, is named, and nothing else is.
#include "harness/engine_check.hpp"

#include <gmock/gmock.h>

#include <bit>
#include <filesystem>

#include "tests/harness/faulty_engine.hpp"
#include "tests/temp_folder.hpp"

namespace dcp::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class EngineCheck : public testing::Test {
 protected:
  EngineVerdict check(const TensorFile& file) {
    const std::string path = (folder_ / "dump.safetensors").string();
    write_safetensors(path, file);
    dump_ = read_engine_dump({path}, false).front();
    return check_engine(dump_, combine_partials(dump_.masked_partials()));
  }

  // The faults that explain what the engine makes of the dump; "right" where it is right.
  std::vector<std::string> found(const FaultyEngine& engine) {
    DumpCase result = engine.dump;
    engine.run(result);
    return names(check(result.file()));
  }

  std::vector<std::string> names(const EngineVerdict& verdict) {
    if (verdict.passed()) return {"right"};
    std::vector<std::string> names;
    text_.clear();
    for (const Explanation& explanation : verdict.explanations) {
      names.emplace_back(explanation.name);
      text_ += explanation.text;
    }
    return names;
  }

  std::string text_;  // of the explanations found last
  EngineDump dump_;

 private:
  const test::TempFolder temp_;
  const std::filesystem::path& folder_ = temp_.path();
};

TEST_F(EngineCheck, ARightResultHasNoExplanation) {
  for (const char* base : {"e", "2"}) {
    for (const DType dtype : {DType::kBf16, DType::kFp16, DType::kFp32}) {
      DumpCase dump;
      dump.base = base;
      dump.dtype = dtype;
      EXPECT_THAT(found({.dump = dump}), ElementsAre("right")) << base << name(dtype);
    }
  }
}

TEST_F(EngineCheck, TheWrongBaseIsNamedInBothDirections) {
  for (const char* base : {"e", "2"}) {
    DumpCase dump;
    dump.base = base;
    const std::string other = dump.base == "e" ? "2" : "e";
    EXPECT_THAT(found({.dump = dump, .base = other}), ElementsAre("wrong_base"));
    EXPECT_EQ(text_, "the lse, in base " + dump.base + ", was taken for base " + other);

    FaultyEngine({.dump = dump}).run(dump);
    for (float& lse : dump.lse) lse *= dump.base == "2" ? std::log(2.0f) : 1 / std::log(2.0f);
    EXPECT_THAT(names(check(dump.file())), ElementsAre("wrong_base"));
    EXPECT_EQ(text_, "the lse was returned in base " + other);
  }
}

TEST_F(EngineCheck, AnLseReadHeadMajorIsNamed) {
  const DumpCase dump;
  EXPECT_THAT(found({.dump = dump,
                     .lse =
                         [&](int rank, int row, int head) {
                           return dump.masked_by_request(rank, row)
                                      ? DumpCase::kEmpty
                                      : dump.partial_lse[static_cast<std::size_t>(
                                            rank * 24 + head * DumpCase::kRows + row)];
                         }}),
              ElementsAre("lse_transposed"));
}

TEST_F(EngineCheck, PermutedRanksAreNamedWithTheirOrder) {
  const DumpCase dump;
  const int order[] = {2, 0, 3, 1};
  const FaultyEngine right{.dump = dump};
  EXPECT_THAT(found({.dump = dump,
                     .lse = [&](int rank, int row,
                                int head) { return right.lse(order[rank], row, head); }}),
              ElementsAre("ranks_permuted"));
  EXPECT_THAT(text_, HasSubstr("weighted with the lse of ranks [2, 0, 3, 1]"));
  EXPECT_THAT(
      found({.dump = dump,
             .masks = [&](int rank, int row) { return dump.masked_by_request(order[rank], row); }}),
      ElementsAre("ranks_permuted"));
  EXPECT_THAT(text_, HasSubstr("masked with the seq_lens of ranks ["));
  EXPECT_THAT(
      found({.dump = dump,
             .lse = [&](int rank, int row, int head) { return right.lse(rank, row, order[head]); },
             .out = [&](int rank, int row, int head,
                        int i) { return right.out(rank, row, order[head], i); }}),
      ElementsAre("ranks_permuted"));
  EXPECT_THAT(text_, HasSubstr("heads of ranks 0, 1, ... are those of ranks [2, 0, 3, 1]"));
}

TEST_F(EngineCheck, AnEmptyLseTakenAsZeroIsNamed) {
  const DumpCase dump;
  const auto lse = [&](int rank, int row, int head) {
    return dump.masked_by_request(rank, row) ? 0
                                             : dump.partial_lse[DumpCase::index(rank, row, head)];
  };
  EXPECT_THAT(found({.dump = dump, .lse = lse}), ElementsAre("empty_lse_zero"));
  const FaultyEngine right{.dump = dump};
  EXPECT_THAT(found({.dump = dump,
                     .lse = lse,
                     .out =
                         [&](int rank, int row, int head, int i) {
                           return dump.masked_by_request(rank, row) ? 0
                                                                    : right.out(rank, row, head, i);
                         }}),
              ElementsAre("empty_lse_zero"));
  EXPECT_THAT(text_, HasSubstr("its out as 0"));
}

TEST_F(EngineCheck, AMaskThatIsMissingOrOfAnotherRowIsNamed) {
  const DumpCase dump;
  EXPECT_THAT(found({.dump = dump, .masks = [](int, int) { return false; }}),
              ElementsAre("mask_missing"));
  EXPECT_THAT(found({.dump = dump,
                     .masks =
                         [&](int rank, int row) {
                           return row < 3 &&
                                  dump.seq_lens[static_cast<std::size_t>(rank * 3 + row)] == 0;
                         }}),
              ElementsAre("mask_by_row_number"));
}

TEST_F(EngineCheck, WhereTheInterleaveIsKnownAMaskByRequestIsNamed) {
  DumpCase dump;
  FaultyEngine({.dump = dump}).run(dump);
  EXPECT_THAT(names(check(dump.file())), ElementsAre("right")) << "the interleave is not known";
  TensorFile file = dump.file();
  file.metadata["interleave"] = "1";
  EXPECT_THAT(names(check(file)), ElementsAre("mask_by_request"));

  FaultyEngine(
      {.dump = dump, .masks = [&](int rank, int row) { return dump.masked_by_row(rank, row); }})
      .run(dump);
  file = dump.file();
  file.metadata["interleave"] = "1";
  EXPECT_THAT(names(check(file)), ElementsAre("right"));
}

TEST_F(EngineCheck, SwappedLanesAreNamed) {
  const DumpCase dump;
  const FaultyEngine right{.dump = dump};
  EXPECT_THAT(found({.dump = dump,
                     .lse =
                         [&](int rank, int row, int head) {
                           const auto bits =
                               std::bit_cast<std::uint32_t>(right.lse(rank, row, head));
                           return std::bit_cast<float>(bits << 16 | bits >> 16);
                         }}),
              ElementsAre("lanes_swapped"));
}

TEST_F(EngineCheck, SixteenBitsWhereThereShouldBeMoreAreNamed) {
  for (const DType half : {DType::kBf16, DType::kFp16}) {
    DumpCase dump;
    dump.dtype = DType::kFp32;
    const auto rounded = [half](float value) { return round_to(half, value); };
    EXPECT_THAT(found({.dump = dump, .round_weight = rounded}), ElementsAre("weights_16bit"));
    EXPECT_EQ(text_, "the weights were rounded to " + std::string(name(half)));
    EXPECT_THAT(found({.dump = dump, .round_power = rounded}), ElementsAre("weights_16bit"));
    EXPECT_EQ(text_, "the powers of the lse were rounded to " + std::string(name(half)));
    const FaultyEngine right{.dump = dump};
    EXPECT_THAT(found({.dump = dump,
                       .lse = [&](int rank, int row,
                                  int head) { return rounded(right.lse(rank, row, head)); }}),
                ElementsAre("lse_16bit"));
  }
}

TEST_F(EngineCheck, AWeightOfZeroThatMultipliesNanIsNamed) {
  DumpCase dump;
  for (int rank = 0; rank < DumpCase::kRanks; ++rank) {
    for (int row = 0; row < DumpCase::kRows; ++row) {
      if (!dump.masked_by_request(rank, row)) continue;
      dump.partial_out[DumpCase::index(rank, row, 1) * DumpCase::kDim + 3] = std::nanf("");
    }
  }
  EXPECT_THAT(found({.dump = dump}), ElementsAre("right"));
  EXPECT_THAT(found({.dump = dump, .skips_zero = false}), ElementsAre("weight_times_nan"));
}

TEST_F(EngineCheck, WeightsThatDoNotAddUpToOneAreNamed) {
  DumpCase dump;
  EXPECT_THAT(found({.dump = dump, .divides_by_sum = false}), ElementsAre("not_normalised"));
  dump.dtype = DType::kFp32;
  for (float& lse : dump.partial_lse) lse += 1e5f;
  EXPECT_THAT(found({.dump = dump}), ElementsAre("right"));
  EXPECT_THAT(found({.dump = dump, .subtracts_lse = true}), ElementsAre("lse_rounded_in_weights"));
}

TEST_F(EngineCheck, WhatNoFaultExplainsIsSaidToBeUnexplained) {
  DumpCase right;
  FaultyEngine({.dump = right}).run(right);
  for (std::size_t at = 0; at < right.out.size(); at += 23) {
    DumpCase dump = right;
    dump.out[at] += 1;
    const EngineVerdict verdict = check(dump.file());
    EXPECT_THAT(names(verdict), IsEmpty());
    ASSERT_TRUE(verdict.engine.out.first_bad);
    const ElementPlace& place = verdict.engine.out.first_bad->at;
    EXPECT_EQ(DumpCase::index(static_cast<int>(place.row), place.head) * DumpCase::kDim +
                  static_cast<std::size_t>(place.element),
              at);
  }
  DumpCase dump = right;
  std::fill(dump.out.begin(), dump.out.end(), std::nanf(""));
  EXPECT_THAT(names(check(dump.file())), IsEmpty());
  dump = right;
  for (float& lse : dump.lse) lse += 0.01f;
  EXPECT_THAT(names(check(dump.file())), IsEmpty());
  dump = right;
  std::rotate(dump.out.begin(), dump.out.begin() + 1, dump.out.end());
  EXPECT_THAT(names(check(dump.file())), IsEmpty());
}

// A fault that reproduces most rows only has not happened.
TEST_F(EngineCheck, AFaultBesideAnotherErrorIsNotNamed) {
  DumpCase dump;
  FaultyEngine({.dump = dump, .base = "2"}).run(dump);
  dump.out[5 * DumpCase::kDim] += 0.5f;
  EXPECT_THAT(names(check(dump.file())), IsEmpty());
}

TEST_F(EngineCheck, OneOfOutAndLseIsEnough) {
  DumpCase dump;
  FaultyEngine({.dump = dump, .base = "2"}).run(dump);
  DumpCase only_out = dump, only_lse = dump;
  only_out.lse.clear();
  only_lse.out.clear();
  EXPECT_THAT(names(check(only_out.file())), ElementsAre("wrong_base"));
  EXPECT_THAT(names(check(only_lse.file())), ElementsAre("wrong_base"));
}

// One rounding and a sum of rounded terms differ: a result may be right for one strategy only.
TEST_F(EngineCheck, TheToleranceIsThatOfTheStrategy) {
  DumpCase dump;
  FaultyEngine({.dump = dump}).run(dump);
  for (float& value : dump.out) value *= 1 + 0x1p-7f;
  TensorFile file = dump.file();
  EXPECT_THAT(names(check(file)), ElementsAre("right"));
  file.metadata["strategy"] = "a2a";
  EXPECT_THAT(names(check(file)), IsEmpty());
}

}  // namespace
}  // namespace dcp::test
