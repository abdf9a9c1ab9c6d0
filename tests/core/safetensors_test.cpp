#include "core/safetensors.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>

#include "core/error.hpp"
#include "tests/temp_folder.hpp"

namespace dcp {
namespace {

namespace fs = std::filesystem;

class Safetensors : public testing::Test {
 protected:
  std::string path(const std::string& file) const { return (folder_ / file).string(); }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

 private:
  const test::TempFolder temp_;
  const fs::path& folder_ = temp_.path();
};

std::string bytes_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<std::byte> raw(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// A file of this header and so many bytes of data.
std::string file_of(const std::string& header, std::size_t data_bytes,
                    const std::string& data = "") {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> (8 * i));
  bytes += header + data;
  bytes.resize(8 + header.size() + data_bytes);
  return bytes;
}

std::string refusal(const std::string& bytes) {
  try {
    parse_safetensors("x.safetensors", bytes);
  } catch (const InputError& error) {
    return error.what();
  }
  return "read";
}

// One tensor of every dtype, an empty one, one without dims.
TensorFile every_form() {
  const std::vector<double> doubles = {0.1, -0.0, std::numeric_limits<double>::infinity()};
  const std::vector<float> floats = {1.5f, std::numeric_limits<float>::quiet_NaN()};
  TensorFile file;
  file.metadata = {{"scenario", "world_size: 2\n# \"quoted\" \xC3\xA9"}, {"seed", "7"}};
  file.tensors = {
      make_tensor<double>("f64", {3}, doubles),
      make_tensor<float>("f32", {2, 1}, floats),
      {"bf16", StoredDType::kBf16, {1, 2}, raw({0x81, 0xFF, 0x01, 0x7F})},  // a signalling NaN
      {"f16", StoredDType::kF16, {2}, raw({0x01, 0x7C, 0, 0})},
      make_tensor<std::int64_t>("i64", {1}, std::vector<std::int64_t>{-(std::int64_t{1} << 60)}),
      make_tensor<std::int32_t>("i32", {1}, std::vector<std::int32_t>{-5}),
      {"u8", StoredDType::kU8, {3}, raw({1, 2, 255})},
      {"none", StoredDType::kF32, {0, 4}, {}},
      {"scalar", StoredDType::kU8, {}, raw({9})}};
  return file;
}

TEST_F(Safetensors, WhatIsWrittenIsReadBackBitForBit) {
  const TensorFile written = every_form();
  write_safetensors(path("x"), written);
  const TensorFile read = read_safetensors(path("x"));
  EXPECT_EQ(read.metadata, written.metadata);
  ASSERT_EQ(read.tensors.size(), written.tensors.size());
  for (const StoredTensor& want : written.tensors) {
    const StoredTensor* got = read.find(want.name);
    ASSERT_NE(got, nullptr) << want.name;
    EXPECT_EQ(got->dtype, want.dtype) << want.name;
    EXPECT_EQ(got->shape, want.shape) << want.name;
    EXPECT_EQ(got->bytes, want.bytes) << want.name;
  }
  EXPECT_EQ(values_of<std::int32_t>(*read.find("i32")), std::vector<std::int32_t>{-5});
  EXPECT_EQ(read.find("f128"), nullptr);
}

TEST_F(Safetensors, BytesAreThoseOfTheFormat) {
  TensorFile file;
  file.metadata = {{"a", "b"}};
  file.tensors = {{"t", StoredDType::kU8, {1}, raw({7})},
                  {"n", StoredDType::kF16, {2}, raw({1, 2, 3, 4})}};
  write_safetensors(path("x"), file);
  const std::string header = R"({"__metadata__":{"a":"b"},)"
                             R"("n":{"data_offsets":[0,4],"dtype":"F16","shape":[2]},)"
                             R"("t":{"data_offsets":[4,5],"dtype":"U8","shape":[1]}})";
  // Blanks, so that the data begins at a multiple of 8.
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(bytes_of(path("x")), file_of(padded, 5, std::string("\1\2\3\4\7", 5)));
}

TEST_F(Safetensors, AFileWithoutTensorsIsRead) {
  write_safetensors(path("x"), {});
  EXPECT_TRUE(read_safetensors(path("x")).tensors.empty());
}

TEST_F(Safetensors, TensorsOfOthersMayStandInAnyOrder) {
  const TensorFile file =
      parse_safetensors("x", file_of(R"({"b":{"shape":[2],"dtype":"U8","data_offsets":[1,3]},)"
                                     R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}  )",
                                     3, "xyz"));
  ASSERT_EQ(file.tensors.size(), 2u);
  EXPECT_EQ(file.tensors[0].name, "a");
  EXPECT_EQ(file.find("b")->bytes, raw({'y', 'z'}));
}

TEST_F(Safetensors, HeadersThatAreWrongAreRefused) {
  const std::string prefix = "x.safetensors: error: ";
  EXPECT_EQ(refusal("1234567"), prefix + "8 bytes with the length of the header expected");
  EXPECT_EQ(refusal(file_of("{}", 0).substr(0, 9)),
            prefix + "a header of 2 bytes, but the file ends 1 bytes after its length");
  EXPECT_EQ(refusal(std::string(8, '\xFF')), prefix +
                                                 "a header of 18446744073709551615 bytes; at most "
                                                 "100000000 are allowed");
  for (const char* header : {"", "[]", " {}", "{}\n", "{} x", "\xEF\xBB\xBF{}"}) {
    EXPECT_EQ(refusal(file_of(header, 0)), prefix + "the header must be a JSON object") << header;
  }
  for (const char* header : {"{]}", "{\"a\":}", "{\"\xFF\":1}", "{\"a\":1e999}", "{}{}"}) {
    EXPECT_EQ(refusal(file_of(header, 0)), prefix + "the header is not JSON") << header;
  }
  EXPECT_EQ(refusal(file_of(R"({"__metadata__":{"a":1}})", 0)),
            prefix + "'__metadata__': 'a' must be a string");
  EXPECT_EQ(refusal(file_of(R"({"__metadata__":[]})", 0)),
            prefix + "'__metadata__' must be an object");
  EXPECT_EQ(refusal(file_of(R"({"__metadata__":{"a":"1","a":"2"}})", 0)),
            prefix + "the header names 'a' twice");
  EXPECT_EQ(refusal(file_of(R"({"a":[[[[)" + std::string(100000, '[') + "}", 0)),
            prefix + "the header is nested too deeply");
  EXPECT_EQ(refusal(file_of("{}", 1)), prefix + "1 bytes after the last tensor");
}

TEST_F(Safetensors, TensorsThatAreWrongAreRefusedByName) {
  struct Case {
    std::string tensor;
    std::size_t data_bytes;
    std::string why;
  };
  const std::vector<Case> cases = {
      {"1", 0, "an object expected"},
      {R"({"dtype":"U8","shape":[1]})", 1, "dtype, shape and data_offsets expected"},
      {R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1})", 1, "unknown field 'x'"},
      {R"({"dtype":8,"shape":[1],"data_offsets":[0,1]})", 1, "'dtype' must be a string"},
      {R"({"dtype":"F8","shape":[1],"data_offsets":[0,1]})", 1, "unknown dtype 'F8'"},
      {R"({"dtype":"U8","shape":1,"data_offsets":[0,1]})", 1, "'shape' must be a list"},
      {R"({"dtype":"U8","shape":[-1],"data_offsets":[0,1]})", 1,
       "'shape' must hold integers in 0 .. 2^63-1"},
      {R"({"dtype":"U8","shape":[1.0],"data_offsets":[0,1]})", 1,
       "'shape' must hold integers in 0 .. 2^63-1"},
      {R"({"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1]})", 1,
       "'shape' must hold integers in 0 .. 2^63-1"},
      {R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,1]})", 1,
       "the shape is too large"},
      {R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})", 4,
       "dtype and shape take 8 bytes, the offsets hold 4"},
      {R"({"dtype":"U8","shape":[1],"data_offsets":[1,0]})", 1,
       "'data_offsets' must be a begin and an end that is not below it"},
      {R"({"dtype":"U8","shape":[1],"data_offsets":[0]})", 1,
       "'data_offsets' must be a begin and an end that is not below it"},
      {R"({"dtype":"U8","shape":[1],"data_offsets":[1,2]})", 2,
       "begins at byte 1 of the data, expected 0: no overlap and no gap"},
      {R"({"dtype":"U8","shape":[2],"data_offsets":[0,2]})", 1, "ends at byte 2, the data has 1"},
      {R"({"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]})",
       2, "begins at byte 1 of the data, expected 2: no overlap and no gap"},
  };
  for (const Case& test : cases) {
    const std::string got = refusal(file_of("{\"t\":" + test.tensor + "}", test.data_bytes));
    const char* name = test.tensor.find("\"b\"") == std::string::npos ? "'t'" : "'b'";
    EXPECT_EQ(got, std::string("x.safetensors: error: tensor ") + name + ": " + test.why);
  }
}

TEST_F(Safetensors, WhatIsNoFileIsRefused) {
  EXPECT_THROW(read_safetensors(path("missing")), InputError);
  EXPECT_THROW(read_safetensors("/dev/zero"), InputError);
  EXPECT_THROW(read_safetensors(path("")), InputError);
}

TEST_F(Safetensors, AFailedWriteLeavesTheOldFileAndNothingElse) {
  fs::create_directory(path("x"));
  std::ofstream(path("x/old")) << "old";
  EXPECT_THROW(write_safetensors(path("x"), every_form()), InputError);
  EXPECT_EQ(files(), std::vector<std::string>{"x"});
  EXPECT_EQ(bytes_of(path("x/old")), "old");
  EXPECT_THROW(write_safetensors(path("no/such/folder"), every_form()), InputError);
}

TEST_F(Safetensors, AWriteReplacesTheOldFile) {
  write_safetensors(path("x"), every_form());
  write_safetensors(path("x"), {});
  EXPECT_TRUE(read_safetensors(path("x")).tensors.empty());
  EXPECT_EQ(files(), std::vector<std::string>{"x"});
}

// Replaces, inserts, removes, repeats or cuts, mostly in the header, whose length may be kept right
// so that damage reaches what comes after it.
std::string damaged(std::string bytes, std::mt19937& random) {
  constexpr std::string_view kBytes = "{}[]\",:0123456789-.eU8F16 x\\\x80\xFF";
  const auto below = [&](std::size_t bound) { return random() % std::max<std::size_t>(bound, 1); };
  const std::size_t header = static_cast<unsigned char>(bytes[0]) |
                             static_cast<std::size_t>(static_cast<unsigned char>(bytes[1])) << 8;
  const std::size_t before = bytes.size();
  for (std::size_t edits = 1 + below(3); edits > 0; --edits) {
    const std::size_t at = below(4) == 0 ? below(bytes.size()) : 8 + below(header);
    const char byte = below(4) == 0 ? static_cast<char>(random()) : kBytes[below(kBytes.size())];
    switch (below(5)) {
      case 0:
        bytes.insert(std::min(at, bytes.size()), 1, byte);
        break;
      case 1:
        if (at < bytes.size()) bytes.erase(at, 1 + below(4));
        break;
      case 2:
        bytes.resize(below(bytes.size()));
        break;
      default:
        if (at < bytes.size()) bytes[at] = byte;
    }
  }
  if (bytes.size() >= 8 && below(3) > 0) {
    const std::size_t length = header + bytes.size() - before;
    for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
  }
  return bytes;
}

TEST_F(Safetensors, DamagedFilesAreReadOrRefusedAndNothingElse) {
  write_safetensors(path("x"), every_form());
  const std::string original = bytes_of(path("x"));
  constexpr int kRuns = 20000;
  std::mt19937 random(20240229);
  int num_refused = 0;
  for (int run = 0; run < kRuns; ++run) {
    try {
      const TensorFile file = parse_safetensors("x", damaged(original, random));
      for (const StoredTensor& tensor : file.tensors) {
        std::size_t size = size_bytes(tensor.dtype);
        for (const std::int64_t dim : tensor.shape) size *= static_cast<std::size_t>(dim);
        ASSERT_EQ(tensor.bytes.size(), size) << "run " << run;
      }
    } catch (const InputError&) {
      ++num_refused;
    } catch (const std::exception& error) {
      FAIL() << "run " << run << ": " << error.what();
    }
  }
  EXPECT_GT(num_refused, kRuns / 2);
  EXPECT_LT(num_refused, kRuns);
}

}  // namespace
}  // namespace dcp
