// Dumps of engines that are not of the form, and the forms that are allowed.
#include "harness/engine_dump.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <functional>

#include "core/error.hpp"
#include "tests/harness/faulty_engine.hpp"
#include "tests/temp_folder.hpp"

namespace dcp::test {
namespace {

using testing::HasSubstr;

class EngineDumpFile : public testing::Test {
 protected:
  void SetUp() override { FaultyEngine({.dump = dump_}).run(dump_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::string refusal(const std::vector<TensorFile>& files, bool per_rank) const {
    std::vector<std::string> paths;
    for (const TensorFile& file : files) {
      paths.push_back(path(std::to_string(paths.size())));
      write_safetensors(paths.back(), file);
    }
    try {
      read_engine_dump(paths, per_rank);
    } catch (const InputError& error) {
      return error.what();
    }
    return "read";
  }

  static StoredTensor& tensor(TensorFile& file, const std::string& name) {
    for (StoredTensor& tensor : file.tensors) {
      if (tensor.name == name) return tensor;
    }
    throw std::logic_error(name);
  }

  static void remove(TensorFile& file, const std::string& name) {
    std::erase_if(file.tensors, [&](const StoredTensor& tensor) { return tensor.name == name; });
  }

  // Another shape of as many elements, or of zeros.
  static void reshape(TensorFile& file, const std::string& name, std::vector<std::int64_t> shape) {
    StoredTensor& changed = tensor(file, name);
    std::size_t size = size_bytes(changed.dtype);
    for (const std::int64_t dim : shape) size *= static_cast<std::size_t>(dim);
    changed.shape = std::move(shape);
    changed.bytes.assign(size, std::byte{0});
  }

  static void set_integers(TensorFile& file, const std::string& name,
                           const std::vector<std::int64_t>& values) {
    StoredTensor& changed = tensor(file, name);
    changed = make_tensor<std::int64_t>(name, changed.shape, values);
  }

  DumpCase dump_;

 private:
  const test::TempFolder temp_;
  const std::filesystem::path& folder_ = temp_.path();
};

TEST_F(EngineDumpFile, AnotherFormIsRefusedWithFileAndTensor) {
  struct Fault {
    std::string message;
    std::function<void(TensorFile&)> make;
  };
  const std::vector<Fault> faults = {
      {"'__metadata__': 'lse_base' is missing; it is \"e\" or \"2\"",
       [](TensorFile& f) { f.metadata.erase("lse_base"); }},
      {"'__metadata__': 'lse_base' must be \"e\" or \"2\", '10' found",
       [](TensorFile& f) { f.metadata["lse_base"] = "10"; }},
      {"unknown key of '__metadata__' 'lse_bas' (did you mean 'lse_base'?)",
       [](TensorFile& f) { f.metadata["lse_bas"] = "e"; }},
      {"'__metadata__': 'strategy' must be ag_rs, ag_ar, a2a or direct, 'ring' found",
       [](TensorFile& f) { f.metadata["strategy"] = "ring"; }},
      {"'__metadata__': 'interleave' must be an integer in 1 .. 2147483647, '1x' found",
       [](TensorFile& f) { f.metadata["interleave"] = "1x"; }},
      {"'__metadata__': 'interleave' must be an integer in 1 .. 2147483647, '0' found",
       [](TensorFile& f) { f.metadata["interleave"] = "0"; }},
      // 9 tokens by 2 over 4 ranks: 0 1 | 2 3 | 4 5 | 6 7, and 8 on rank 0 again. 3: 0 1 | 2.
      {"'seq_lens': rank 0 holds 1 keys of request 1; of 3 keys at interleave 2 it would hold 2",
       [](TensorFile& f) { f.metadata["interleave"] = "2"; }},
      {"'__metadata__': 'world_size' is 8, rank 4 is missing",
       [](TensorFile& f) { f.metadata["world_size"] = "8"; }},
      {"the tensor 'partial_out' is missing", [](TensorFile& f) { remove(f, "partial_out"); }},
      {"the tensor 'partial_lse' is missing", [](TensorFile& f) { remove(f, "partial_lse"); }},
      {"the tensor 'seq_lens' is missing beside 'query_start_loc'",
       [](TensorFile& f) { remove(f, "seq_lens"); }},
      {"the tensor 'query_start_loc' is missing beside 'seq_lens'",
       [](TensorFile& f) { remove(f, "query_start_loc"); }},
      {"unknown tensor 'partial_lses' (did you mean 'partial_lse'?)",
       [](TensorFile& f) {
         f.tensors.push_back({"partial_lses", StoredDType::kU8, {0}});
       }},
      {"tensor 'partial_out': F16, BF16 or F32 expected, F64 found",
       [](TensorFile& f) {
         tensor(f, "partial_out").dtype = StoredDType::kF64;
         reshape(f, "partial_out", {4, 6, 4, 8});
       }},
      {"tensor 'partial_out': shape [N, T, H, D] expected, [6, 4, 8] found",
       [](TensorFile& f) {
         reshape(f, "partial_out", {6, 4, 8});
       }},
      {"tensor 'partial_out': T in 1 .. 1048576 expected, 0 found",
       [](TensorFile& f) {
         reshape(f, "partial_out", {4, 0, 4, 8});
       }},
      {"tensor 'partial_out': N in 1 .. 64 expected, 65 found",
       [](TensorFile& f) {
         reshape(f, "partial_out", {65, 1, 4, 8});
       }},
      {"tensor 'partial_out': D must be a multiple of 8, 12 found",
       [](TensorFile& f) {
         reshape(f, "partial_out", {4, 6, 4, 12});
       }},
      {"tensor 'partial_lse': shape [4, 6, 4] expected, [4, 4, 6] found",
       [](TensorFile& f) {
         reshape(f, "partial_lse", {4, 4, 6});
       }},
      {"tensor 'partial_lse': F16, BF16 or F32 expected, I32 found",
       [](TensorFile& f) { tensor(f, "partial_lse").dtype = StoredDType::kI32; }},
      {"tensor 'seq_lens': shape [4, 3] expected, [3, 4] found",
       [](TensorFile& f) {
         reshape(f, "seq_lens", {3, 4});
       }},
      {"tensor 'seq_lens': I32 or I64 expected, F32 found",
       [](TensorFile& f) { tensor(f, "seq_lens").dtype = StoredDType::kF32; }},
      {"tensor 'seq_lens': element 4 must be in 0 .. 2147483647, -1 found",
       [](TensorFile& f) {
         set_integers(f, "seq_lens", {3, 1, 1, 2, -1, 0, 2, 1, 0, 2, 0, 0});
       }},
      {"tensor 'seq_lens': element 0 must be in 0 .. 2147483647, 4294967296 found",
       [](TensorFile& f) {
         set_integers(f, "seq_lens", {4294967296, 1, 1, 2, 1, 0, 2, 1, 0, 2, 0, 0});
       }},
      {"tensor 'query_start_loc': element 2 must be in 2 .. 6, 1 found",
       [](TensorFile& f) {
         set_integers(f, "query_start_loc", {0, 2, 1, 5});
       }},
      {"tensor 'query_start_loc': element 3 must be in 4 .. 6, 7 found",
       [](TensorFile& f) {
         set_integers(f, "query_start_loc", {0, 2, 4, 7});
       }},
      {"tensor 'query_start_loc': element 0 must be in 0 .. 0, 1 found",
       [](TensorFile& f) {
         set_integers(f, "query_start_loc", {1, 2, 4, 5});
       }},
      {"tensor 'query_start_loc': shape [R + 1] expected, [0] found",
       [](TensorFile& f) { reshape(f, "query_start_loc", {0}); }},
      {"tensor 'out': shape [6, 4, 8] expected, [6, 1, 8] found",
       [](TensorFile& f) {
         reshape(f, "out", {6, 1, 8});
       }},
      {"tensor 'out': the dtype of 'partial_out', BF16, expected, F16 found",
       [](TensorFile& f) { tensor(f, "out").dtype = StoredDType::kF16; }},
      {"tensor 'lse': shape [6, 4] expected, [4, 6] found",
       [](TensorFile& f) {
         reshape(f, "lse", {4, 6});
       }},
      {"tensor 'lse': F32 expected, I32 found",
       [](TensorFile& f) { tensor(f, "lse").dtype = StoredDType::kI32; }},
  };
  for (const Fault& fault : faults) {
    TensorFile file = dump_.file();
    fault.make(file);
    EXPECT_EQ(refusal({file}, false), path("0") + ": error: " + fault.message);
  }
}

TEST_F(EngineDumpFile, HeadsThatDoNotDivideAmongTheRanksAreRefused) {
  TensorFile file = dump_.file();
  remove(file, "out");
  remove(file, "lse");
  remove(file, "seq_lens");
  remove(file, "query_start_loc");
  reshape(file, "partial_out", {4, 4, 6, 8});
  reshape(file, "partial_lse", {4, 4, 6});
  EXPECT_EQ(refusal({file}, false), path("0") + ": error: 6 heads do not divide among 4 ranks");
}

// That the heads do not divide among those that are there is not what is wrong.
TEST_F(EngineDumpFile, MissingAndSurplusRanksAreToldAsSuch) {
  TensorFile file = dump_.file_of_rank(0);
  file.metadata["world_size"] = "4";
  const std::string text = ": error: '__metadata__': 'world_size' is 4, ";
  EXPECT_EQ(refusal({file, file, file}, true), path("0") + text + "rank 3 is missing");
  EXPECT_EQ(refusal({file, file, file, file, file}, true),
            path("0") + text + "there is no rank 4 in it");
}

TEST_F(EngineDumpFile, FilesOfRanksMustAgree) {
  const std::vector<TensorFile> right = {dump_.file_of_rank(0), dump_.file_of_rank(1),
                                         dump_.file_of_rank(2), dump_.file_of_rank(3)};
  EXPECT_EQ(refusal(right, true), "read");
  struct Fault {
    std::string what;
    std::function<void(TensorFile&)> make;
  };
  const std::vector<Fault> faults = {
      {"'query_start_loc'",
       [](TensorFile& f) {
         set_integers(f, "query_start_loc", {0, 2, 4, 6});
       }},
      {"'lse_base'", [](TensorFile& f) { f.metadata["lse_base"] = "2"; }},
      {"'strategy'", [](TensorFile& f) { f.metadata["strategy"] = "a2a"; }},
      {"'interleave'", [](TensorFile& f) { f.metadata["interleave"] = "1"; }},
      {"whether there is an 'out'", [](TensorFile& f) { remove(f, "out"); }},
      {"whether there is an 'lse'", [](TensorFile& f) { remove(f, "lse"); }},
      {"the number of heads in 'out' and 'lse'",
       [](TensorFile& f) {
         reshape(f, "out", {6, 2, 8});
         reshape(f, "lse", {6, 2});
       }},
      {"the shape or dtype of 'partial_out'",
       [](TensorFile& f) {
         tensor(f, "partial_out").dtype = StoredDType::kF16;
         tensor(f, "out").dtype = StoredDType::kF16;
       }},
  };
  for (const Fault& fault : faults) {
    std::vector<TensorFile> files = right;
    fault.make(files[2]);
    EXPECT_EQ(refusal(files, true),
              path("2") + ": error: " + fault.what + " is not that of " + path("0"));
  }
}

TEST_F(EngineDumpFile, ARankHasItsOwnHeadsOrAll) {
  std::vector<TensorFile> files;
  for (int rank = 0; rank < 4; ++rank) {
    files.push_back(dump_.file_of_rank(rank));
    reshape(files.back(), "out", {6, 2, 8});
    reshape(files.back(), "lse", {6, 2});
  }
  EXPECT_THAT(refusal(files, true), HasSubstr("'out' and 'lse' have 2 heads; 1 of 4 heads on each "
                                              "of 4 ranks expected, or all"));
  for (TensorFile& file : files) {
    reshape(file, "out", {6, 4, 8});
    reshape(file, "lse", {6, 4});
  }
  EXPECT_EQ(refusal(files, true), "read");
  EXPECT_TRUE(read_engine_dump({path("0"), path("1"), path("2"), path("3")}, true)
                  .front()
                  .engine.keeps_all_heads);
}

// The rank's file, with a leading [layers] of `num_layers` alike.
TensorFile layered(TensorFile file, std::int64_t num_layers) {
  for (StoredTensor& tensor : file.tensors) {
    if (tensor.name == "seq_lens" || tensor.name == "query_start_loc") continue;
    const std::vector<std::byte> layer = tensor.bytes;
    tensor.shape.insert(tensor.shape.begin(), num_layers);
    for (std::int64_t i = 1; i < num_layers; ++i) {
      tensor.bytes.insert(tensor.bytes.end(), layer.begin(), layer.end());
    }
  }
  return file;
}

TEST_F(EngineDumpFile, LayersOfRanksAreOneDumpEach) {
  std::vector<TensorFile> files;
  for (int rank = 0; rank < 4; ++rank) files.push_back(layered(dump_.file_of_rank(rank), 3));
  ASSERT_EQ(refusal(files, true), "read");
  const auto dumps = read_engine_dump({path("0"), path("1"), path("2"), path("3")}, true);
  ASSERT_EQ(dumps.size(), 3u);
  EXPECT_EQ(dumps[2].partials.out_at(1, 2, 3, 4), dumps[0].partials.out_at(1, 2, 3, 4));
  EXPECT_EQ(dumps[2].partials.lse_at(3, 5, 1), dump_.partial_lse[DumpCase::index(3, 5, 1)]);
  EXPECT_EQ(dumps[1].masked, dumps[0].masked);
}

TEST_F(EngineDumpFile, LayersMustBeThoseOfAllTensorsAndRanks) {
  std::vector<TensorFile> files;
  for (int rank = 0; rank < 4; ++rank) files.push_back(layered(dump_.file_of_rank(rank), 3));
  files[2] = layered(dump_.file_of_rank(2), 2);
  EXPECT_THAT(refusal(files, true), HasSubstr("the number of layers is not that of"));
  reshape(files[0], "partial_lse", {2, 6, 4});
  EXPECT_THAT(refusal(files, true),
              HasSubstr("tensor 'partial_lse': the 3 layers of 'partial_out' expected"));
  reshape(files[0], "partial_out", {2000, 6, 4, 8});
  EXPECT_THAT(refusal(files, true), HasSubstr("layers in 1 .. 1024 expected, 2000 found"));
}

TEST_F(EngineDumpFile, AnLseOfSixteenBitsIsWidenedExactly) {
  for (const DType dtype : {DType::kFp16, DType::kBf16}) {
    TensorFile file = dump_.file();
    tensor(file, "partial_lse") =
        DumpCase::tensor("partial_lse", {4, 6, 4}, dump_.partial_lse, dtype);
    ASSERT_EQ(refusal({file}, false), "read");
    const EngineDump read = read_engine_dump({path("0")}, false).front();
    EXPECT_EQ(read.partials.lse_at(1, 2, 3),
              round_to(dtype, dump_.partial_lse[DumpCase::index(1, 2, 3)]));
  }
}

TEST_F(EngineDumpFile, RowsAreMaskedByTheirBoundWhereTheInterleaveIsKnown) {
  TensorFile file = dump_.file();
  for (const bool known : {false, true}) {
    if (known) file.metadata["interleave"] = "1";
    ASSERT_EQ(refusal({file}, false), "read");
    const EngineDump read = read_engine_dump({path("0")}, false).front();
    for (int rank = 0; rank < DumpCase::kRanks; ++rank) {
      for (int row = 0; row < DumpCase::kRows; ++row) {
        EXPECT_EQ(read.masked[static_cast<std::size_t>(rank)][static_cast<std::size_t>(row)],
                  known ? dump_.masked_by_row(rank, row) : dump_.masked_by_request(rank, row))
            << rank << " " << row;
      }
    }
  }
}

// Contexts of 7 keys, 1 and 0 on ranks that hold shares of 9, 3 and 1.
TEST_F(EngineDumpFile, RowsOfAContextAreMaskedByItsKeysAlone) {
  TensorFile file = dump_.file();
  file.metadata["interleave"] = "1";
  file.metadata["attention_split"] = "context_then_new";
  ASSERT_EQ(refusal({file}, false), "read");
  const EngineDump read = read_engine_dump({path("0")}, false).front();
  EXPECT_EQ(read.masked[0], (std::vector<bool>{false, false, false, false, true, true}));
  for (const std::size_t rank : {1, 2, 3}) {
    EXPECT_EQ(read.masked[rank], (std::vector<bool>{false, false, true, true, true, true})) << rank;
  }
  EXPECT_FALSE(read.has_out());
}

TEST_F(EngineDumpFile, HugeFilesAreRefusedBeforeMemoryIsShort) {
  write_safetensors(path("huge"), dump_.file());
  std::filesystem::resize_file(path("huge"), std::uintmax_t{1} << 40);  // sparse
  try {
    read_engine_dump({path("huge")}, false);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(), path("huge") + ": error: longer than 1024 MiB");
  }
}

}  // namespace
}  // namespace dcp::test
