// What ops declare, against what they touch.
#include "kernels/accesses.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "kernels/a2a_combine.hpp"
#include "kernels/a2a_pack.hpp"
#include "kernels/empty_shard_mask.hpp"
#include "kernels/gqa_attention.hpp"
#include "kernels/kv_append.hpp"
#include "kernels/lse_correct.hpp"
#include "kernels/merge_states.hpp"
#include "kernels/mla_attention.hpp"
#include "kernels/new_attention.hpp"
#include "kernels/out_proj.hpp"
#include "kernels/round_rows.hpp"
#include "kernels/split_combine.hpp"
#include "tests/kernels/tensor.hpp"

namespace dcp::test {
namespace {

static_assert(Op<KvAppend> && Op<MlaAttention> && Op<EmptyShardMask> && Op<LseCorrect>);
static_assert(Op<GqaAttention> && Op<NewAttention> && Op<SplitCombine> && Op<MergeStates>);
static_assert(Op<A2aPack> && Op<A2aCombine> && Op<RoundRows> && Op<OutProj>);

// One block of memory that holds all of an op's arrays with gaps between them.
class Arena {
 public:
  static constexpr std::size_t kGap = 64;

  void* bytes(std::size_t size) {
    used_ += kGap;
    void* data = &memory_[used_];
    used_ += (size + 15) / 16 * 16 + kGap;
    return data;
  }
  template <class T>
  T* array(const std::vector<T>& values) {
    void* data = bytes(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(data, values.data(), values.size() * sizeof(T));
    return static_cast<T*>(data);
  }
  // A view whose elements are 1, 2, 3, ... modulo 7.
  HeadRows rows(DType dtype, const Shape& shape, Layout layout = Layout::kTokenMajor) {
    Rows rows(dtype, shape, layout);
    for (std::size_t i = 0; i < rows.storage.count(); ++i) {
      rows.storage.set(static_cast<std::int64_t>(i), static_cast<float>(i % 7 + 1));
    }
    HeadRows view = rows.view();
    void* data = array(rows.storage.bytes());
    view.data =
        static_cast<std::byte*>(data) + rows.origin * static_cast<std::int64_t>(size_bytes(dtype));
    return view;
  }
  std::vector<std::byte>& memory() { return memory_; }

 private:
  std::vector<std::byte> memory_ = std::vector<std::byte>(1 << 16, std::byte{0});
  std::size_t used_ = 0;
};

// Bytes of the arena that `accesses` cover.
std::vector<bool> covered(Arena& arena, const std::vector<Access>& accesses, bool only_writes) {
  std::vector<bool> covered(arena.memory().size());
  for (const Access& access : accesses) {
    if (only_writes && access.mode == Mode::kRead) continue;
    const std::ptrdiff_t begin = static_cast<const std::byte*>(access.data) - arena.memory().data();
    EXPECT_GE(begin, 0) << access.argument;
    EXPECT_LE(begin + access.size_bytes, covered.size()) << access.argument;
    std::fill_n(covered.begin() + begin, access.size_bytes, true);
  }
  return covered;
}

// Runs the op with everything that it did not declare set to `poison`: returns what its declared
// ranges then hold; other bytes and bytes that it only reads must not have changed.
template <Op O>
std::vector<std::byte> run_poisoned(const std::function<typename O::Params(Arena&)>& make,
                                    std::byte poison) {
  Arena arena;
  const typename O::Params params = make(arena);
  std::vector<Access> accesses;
  O::accesses(params, accesses);
  const std::vector<bool> declared = covered(arena, accesses, false);
  const std::vector<bool> written = covered(arena, accesses, true);
  std::vector<std::byte>& memory = arena.memory();
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (!declared[i]) memory[i] = poison;
  }
  const std::vector<std::byte> before = memory;
  O::run(params);
  std::vector<std::byte> result;
  std::size_t num_changed = 0;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (declared[i]) result.push_back(memory[i]);
    if (memory[i] == before[i]) continue;
    ++num_changed;
    EXPECT_TRUE(written[i]) << O::kName << " changed byte " << i;
  }
  EXPECT_GT(num_changed, 0u) << O::kName;
  return result;
}

template <Op O>
void expect_touches_only_what_it_declares(const std::function<typename O::Params(Arena&)>& make) {
  const auto with_nan = run_poisoned<O>(make, std::byte{0xFF});
  const auto with_numbers = run_poisoned<O>(make, std::byte{0x3A});
  EXPECT_TRUE(with_nan == with_numbers) << O::kName << " read what it did not declare";
}

BatchMetadata batch_in(Arena& arena) {
  return {.query_start_loc = arena.array<std::int32_t>({0, 2, 3}),
          .seq_lens = arena.array<std::int32_t>({6, 0}),
          .causal_bounds = arena.array<std::int32_t>({5, 6, 2, 0}),
          .num_requests = 2};
}

EmptyRows empty_in(Arena& arena) {
  return {.empty_ranks = arena.array<std::uint64_t>({0, 2, 1, ~std::uint64_t{0}}), .rank = 1};
}

KvAppend::Params kv_append(Arena& arena) {
  KvAppend::Params params{};
  params.new_kv = arena.array<float>({1, 2, 3, 4, 5, 6, 7, 8});
  params.kv_cache = arena.array(std::vector<float>(12));
  params.slot_mapping = arena.array<std::int64_t>({2, 0});
  params.num_tokens = 2;
  params.num_slots = 3;
  params.dim = 4;
  params.dtype = DType::kFp32;
  params.kv_dtype = DType::kFp32;
  return params;
}

MlaAttention::Params mla_attention(Arena& arena, Layout layout) {
  MlaAttention::Params params{};
  params.query = arena.rows(DType::kBf16, {4, 2, 16}, layout);
  params.kv_cache = arena.rows(DType::kBf16, {3 * 4, 1, 16}).data;
  params.kv_dtype = DType::kBf16;
  params.block_table = arena.array<std::int32_t>({2, 0, 1, 1});
  params.batch = batch_in(arena);
  params.out = arena.rows(DType::kBf16, {4, 2, 8}, layout);
  params.lse = arena.rows(DType::kFp16, {4, 2, 1}, layout);
  params.empty_row_mode = arena.array<std::int32_t>({0});
  params.num_tokens = 4;
  params.num_blocks = 3;
  params.block_table_stride = 2;
  params.block_size = 4;
  params.num_heads = 2;
  params.qk_head_dim = 16;
  params.v_head_dim = 8;
  params.softmax_scale = 0.1f;
  return params;
}

// Two splits, whose states follow each other in token-major rows.
MlaAttention::Params split_mla_attention(Arena& arena, Layout layout) {
  MlaAttention::Params params = mla_attention(arena, layout);
  params.out = arena.rows(DType::kFp32, {2 * 4, 2, 8});
  params.lse = arena.rows(DType::kFp32, {2 * 4, 2, 1});
  params.empty_row_mode = nullptr;
  params.num_splits = 2;
  return params;
}

GqaAttention::Params gqa_attention(Arena& arena, Layout layout) {
  GqaAttention::Params params{};
  params.query = arena.rows(DType::kBf16, {4, 4, 8}, layout);
  params.kv_cache = arena.rows(DType::kBf16, {3 * 4, 4, 8}).data;
  params.kv_dtype = DType::kBf16;
  params.block_table = arena.array<std::int32_t>({2, 0, 1, 1});
  params.batch = batch_in(arena);
  params.out = arena.rows(DType::kBf16, {4, 4, 8}, layout);
  params.lse = arena.rows(DType::kFp16, {4, 4, 1}, layout);
  params.empty_row_mode = arena.array<std::int32_t>({0});
  params.num_tokens = 4;
  params.num_blocks = 3;
  params.block_table_stride = 2;
  params.block_size = 4;
  params.num_heads = 4;
  params.num_kv_heads = 2;
  params.head_dim = 8;
  params.softmax_scale = 0.1f;
  return params;
}

GqaAttention::Params split_gqa_attention(Arena& arena, Layout layout) {
  GqaAttention::Params params = gqa_attention(arena, layout);
  params.out = arena.rows(DType::kFp32, {2 * 4, 4, 8});
  params.lse = arena.rows(DType::kFp32, {2 * 4, 4, 1});
  params.empty_row_mode = nullptr;
  params.num_splits = 2;
  return params;
}

BatchMetadata new_batch_in(Arena& arena) {
  return {.query_start_loc = arena.array<std::int32_t>({0, 2, 3}),
          .seq_lens = arena.array<std::int32_t>({2, 0}),
          .causal_bounds = arena.array<std::int32_t>({1, 2, 0, 0}),
          .num_requests = 2};
}

NewAttention::Params new_attention(Arena& arena, Layout layout) {
  NewAttention::Params params{};
  params.query = arena.rows(DType::kBf16, {4, 2, 8}, layout);
  params.new_kv = arena.rows(DType::kBf16, {5, 4, 8}).data;
  params.first_rows = arena.array<std::int32_t>({1, 0});
  params.batch = new_batch_in(arena);
  params.out = arena.rows(DType::kBf16, {4, 2, 8}, layout);
  params.lse = arena.array(std::vector<float>(8));
  params.empty_row_mode = arena.array<std::int32_t>({0});
  params.num_tokens = 4;
  params.num_new_rows = 5;
  params.num_heads = 2;
  params.first_head = 1;
  params.heads_per_kv_head = 2;
  params.num_kv_heads = 2;
  params.head_dim = 8;
  params.softmax_scale = 0.1f;
  return params;
}

SplitCombine::Params split_combine(Arena& arena, Layout layout) {
  SplitCombine::Params params{};
  params.split_out = arena.array(std::vector<float>(3 * 4 * 2 * 8, 2.0f));
  params.split_lse = arena.array(std::vector<float>(3 * 4 * 2, 1.0f));
  params.out = arena.rows(DType::kBf16, {4, 2, 8}, layout);
  params.lse = arena.rows(DType::kFp16, {4, 2, 1}, layout);
  params.batch = batch_in(arena);
  params.empty_row_mode = arena.array<std::int32_t>({0});
  params.num_tokens = 4;
  params.num_heads = 2;
  params.head_dim = 8;
  params.num_splits = 3;
  return params;
}

MergeStates::Params merge_states(Arena& arena, Layout layout) {
  MergeStates::Params params{};
  params.context_out = arena.rows(DType::kBf16, {4, 2, 8}).data;
  params.context_lse = arena.array(std::vector<float>(8, 1.0f));
  params.new_out = arena.rows(DType::kBf16, {4, 2, 8}).data;
  params.new_lse = arena.array(std::vector<float>(8, 2.0f));
  params.out = arena.rows(DType::kBf16, {4, 2, 8}, layout);
  params.lse = arena.array(std::vector<float>(8));
  params.batch = new_batch_in(arena);
  params.num_tokens = 4;
  params.num_heads = 2;
  params.head_dim = 8;
  return params;
}

EmptyShardMask::Params empty_shard_mask(Arena& arena, Layout layout) {
  EmptyShardMask::Params params{};
  params.lse = arena.rows(DType::kBf16, {4, 2, 1}, layout);
  params.masked = arena.array(std::vector<float>(8));
  params.empty = empty_in(arena);
  params.num_tokens = 4;
  params.num_heads = 2;
  return params;
}

LseCorrect::Params lse_correct(Arena& arena, Layout layout) {
  LseCorrect::Params params{};
  params.lses = arena.array(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 1, 3, 5, 7, 9, 2, 4, 6});
  params.empty_ranks = arena.array<std::uint64_t>({0, 1, 2, 3});
  params.out = arena.rows(DType::kFp16, {4, 2, 8}, layout);
  params.scaled = arena.rows(DType::kFp32, {4, 2, 8}, layout);
  params.lse = arena.array(std::vector<float>(4));
  params.num_tokens = 4;
  params.num_heads = 2;
  params.head_dim = 8;
  params.world_size = 2;
  params.rank = 1;
  params.first_lse_head = 1;
  params.num_lse_heads = 1;
  return params;
}

A2aPack::Params a2a_pack(Arena& arena, Layout layout) {
  A2aPack::Params params{};
  params.out = arena.rows(DType::kBf16, {4, 2, 8}, layout);
  params.lse = arena.rows(DType::kFp32, {4, 2, 1}, layout);
  params.send = arena.bytes(2 * 4 * 10 * 2);
  params.empty = empty_in(arena);
  params.num_tokens = 4;
  params.num_heads = 2;
  params.head_dim = 8;
  params.world_size = 2;
  params.layout = A2aLayout::kSplit;
  return params;
}

A2aCombine::Params a2a_combine(Arena& arena, Layout layout) {
  A2aCombine::Params params{};
  params.recv = arena.array(std::vector<std::uint16_t>(2 * 4 * 2 * 10, 0x3F80));
  params.out = arena.rows(DType::kBf16, {4, 2, 8}, layout);
  params.lse = arena.array(std::vector<float>(8));
  params.num_tokens = 4;
  params.heads_per_rank = 2;
  params.head_dim = 8;
  params.world_size = 2;
  return params;
}

RoundRows::Params round_rows(Arena& arena) {
  RoundRows::Params params{};
  params.in = arena.array<float>({1, 2, 3});
  params.out = arena.bytes(6);
  params.num_elements = 3;
  params.dtype = DType::kBf16;
  return params;
}

OutProj::Params out_proj(Arena& arena, Layout layout) {
  OutProj::Params params{};
  params.out = arena.rows(DType::kBf16, {4, 2, 8}, layout);
  params.next_query = arena.rows(DType::kBf16, {4, 2, 16}, layout);
  params.num_tokens = 4;
  params.num_heads = 2;
  params.v_head_dim = 8;
  params.qk_head_dim = 16;
  params.layer = 1;
  return params;
}

TEST(Accesses, CoverAllThatAnOpTouches) {
  expect_touches_only_what_it_declares<KvAppend>(kv_append);
  expect_touches_only_what_it_declares<RoundRows>(round_rows);
  for (const Layout layout : kLayouts) {
    SCOPED_TRACE(static_cast<int>(layout));
    const auto with = [layout](auto make) {
      return [make, layout](Arena& arena) { return make(arena, layout); };
    };
    expect_touches_only_what_it_declares<MlaAttention>(with(mla_attention));
    expect_touches_only_what_it_declares<MlaAttention>(with(split_mla_attention));
    expect_touches_only_what_it_declares<GqaAttention>(with(gqa_attention));
    expect_touches_only_what_it_declares<GqaAttention>(with(split_gqa_attention));
    expect_touches_only_what_it_declares<NewAttention>(with(new_attention));
    expect_touches_only_what_it_declares<SplitCombine>(with(split_combine));
    expect_touches_only_what_it_declares<MergeStates>(with(merge_states));
    expect_touches_only_what_it_declares<EmptyShardMask>(with(empty_shard_mask));
    expect_touches_only_what_it_declares<LseCorrect>(with(lse_correct));
    expect_touches_only_what_it_declares<A2aPack>(with(a2a_pack));
    expect_touches_only_what_it_declares<A2aCombine>(with(a2a_combine));
    expect_touches_only_what_it_declares<OutProj>(with(out_proj));
  }
}

// "name bytes mode" per access of any bytes, in the order of declaration.
template <Op O>
std::vector<std::string> declared(const typename O::Params& params) {
  std::vector<Access> accesses;
  kOpInfo<O>.accesses(&params, accesses);
  std::vector<std::string> lines;
  for (const Access& access : accesses) {
    if (access.size_bytes == 0) continue;
    lines.push_back(std::string(access.argument) + " " + std::to_string(access.size_bytes) +
                    (access.mode == Mode::kRead ? " r" : " w"));
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST(Accesses, HaveTheSizeOfTheTensors) {
  Arena arena;
  const Layout layout = Layout::kTokenMajor;
  EXPECT_EQ(declared<KvAppend>(kv_append(arena)),
            (Lines{"new_kv 32 r", "slot_mapping 16 r", "kv_cache 48 w"}));
  EXPECT_EQ(declared<MlaAttention>(mla_attention(arena, layout)),
            (Lines{"query 256 r", "kv_cache 384 r", "block_table 16 r",
                   "batch.query_start_loc 12 r", "batch.seq_lens 8 r", "batch.causal_bounds 16 r",
                   "out 128 w", "lse 16 w", "empty_row_mode 4 r"}));
  EXPECT_EQ(declared<EmptyShardMask>(empty_shard_mask(arena, layout)),
            (Lines{"lse 16 r", "masked 32 w", "empty_ranks 32 r"}));
  EXPECT_EQ(declared<LseCorrect>(lse_correct(arena, layout)),
            (Lines{"lses 64 r", "empty_ranks 32 r", "out 128 r", "scaled 256 w", "lse 16 w"}));
  EXPECT_EQ(declared<A2aPack>(a2a_pack(arena, layout)),
            (Lines{"out 128 r", "lse 32 r", "send 160 w", "empty_ranks 32 r"}));
  EXPECT_EQ(declared<A2aCombine>(a2a_combine(arena, layout)),
            (Lines{"recv 320 r", "out 128 w", "lse 32 w"}));
  EXPECT_EQ(declared<RoundRows>(round_rows(arena)), (Lines{"in 12 r", "out 6 w"}));
  EXPECT_EQ(declared<OutProj>(out_proj(arena, layout)), (Lines{"out 128 r", "next_query 256 w"}));
}

TEST(Accesses, OfAttentionAndItsMergesHaveTheSizeOfTheTensors) {
  Arena arena;
  const Layout layout = Layout::kTokenMajor;
  const Lines batch = {"batch.query_start_loc 12 r", "batch.seq_lens 8 r",
                       "batch.causal_bounds 16 r"};
  const auto with_batch = [&](Lines lines, const Lines& rest) {
    lines.insert(lines.end(), batch.begin(), batch.end());
    lines.insert(lines.end(), rest.begin(), rest.end());
    return lines;
  };
  EXPECT_EQ(
      declared<MlaAttention>(split_mla_attention(arena, layout)),
      with_batch({"query 256 r", "kv_cache 384 r", "block_table 16 r"}, {"out 512 w", "lse 64 w"}));
  EXPECT_EQ(declared<GqaAttention>(gqa_attention(arena, layout)),
            with_batch({"query 256 r", "kv_cache 768 r", "block_table 16 r"},
                       {"out 256 w", "lse 32 w", "empty_row_mode 4 r"}));
  EXPECT_EQ(declared<GqaAttention>(split_gqa_attention(arena, layout)),
            with_batch({"query 256 r", "kv_cache 768 r", "block_table 16 r"},
                       {"out 1024 w", "lse 128 w"}));
  EXPECT_EQ(declared<NewAttention>(new_attention(arena, layout)),
            with_batch({"query 128 r", "new_kv 320 r", "first_rows 8 r"},
                       {"out 128 w", "lse 32 w", "empty_row_mode 4 r"}));
  EXPECT_EQ(declared<SplitCombine>(split_combine(arena, layout)),
            with_batch({"split_out 768 r", "split_lse 96 r"},
                       {"out 128 w", "lse 16 w", "empty_row_mode 4 r"}));
  EXPECT_EQ(declared<MergeStates>(merge_states(arena, layout)),
            with_batch({"context_out 128 r", "context_lse 32 r", "new_out 128 r", "new_lse 32 r"},
                       {"out 128 w", "lse 32 w"}));
}

TEST(Accesses, OfAStridedViewReachFromItsLowestToItsHighestElement) {
  const auto range = [](const Shape& shape, Layout layout) {
    Rows rows(DType::kFp16, shape, layout);
    std::vector<Access> accesses;
    declare_read(accesses, rows.view(), {shape.num_tokens, shape.num_heads, shape.dim}, "rows");
    const auto* begin = static_cast<const std::byte*>(rows.storage.data());
    return std::pair{static_cast<const std::byte*>(accesses.at(0).data) - begin,
                     accesses.at(0).size_bytes / 2};
  };
  const Shape shape{3, 4, 8};
  EXPECT_EQ(range(shape, Layout::kTokenMajor), (std::pair<std::ptrdiff_t, std::size_t>{0, 96}));
  EXPECT_EQ(range(shape, Layout::kHeadPadded),
            (std::pair<std::ptrdiff_t, std::size_t>{0, 2 * 56 + 32}));
  EXPECT_EQ(range(shape, Layout::kElementStride),
            (std::pair<std::ptrdiff_t, std::size_t>{0, 95 * 3 + 1}));
  EXPECT_EQ(range(shape, Layout::kReversed), (std::pair<std::ptrdiff_t, std::size_t>{0, 96}));
  EXPECT_EQ(range(shape, Layout::kHeadMajor), (std::pair<std::ptrdiff_t, std::size_t>{0, 96}));
  EXPECT_EQ(range(shape, Layout::kRankMajor), (std::pair<std::ptrdiff_t, std::size_t>{0, 96}));
}

TEST(Accesses, LeaveOutWhatAnOpWillNotTouch) {
  Arena arena;
  LseCorrect::Params correct = lse_correct(arena, Layout::kTokenMajor);
  correct.lse = nullptr;
  EXPECT_EQ(declared<LseCorrect>(correct).size(), 4u);
  correct.empty_ranks = nullptr;
  EXPECT_EQ(declared<LseCorrect>(correct).size(), 3u);
  MergeStates::Params merge = merge_states(arena, Layout::kTokenMajor);
  merge.lse = nullptr;
  EXPECT_EQ(declared<MergeStates>(merge).size(), 8u);
  OutProj::Params zero = out_proj(arena, Layout::kTokenMajor);
  zero.zero = 1;
  EXPECT_EQ(declared<OutProj>(zero), (Lines{"next_query 256 w"}));
  EmptyShardMask::Params mask = empty_shard_mask(arena, Layout::kTokenMajor);
  mask.empty = {};
  EXPECT_EQ(declared<EmptyShardMask>(mask), (Lines{"lse 16 r", "masked 32 w"}));
}

TEST(Accesses, NameThePointersBehindWhichNothingIsTouched) {
  Arena arena;
  const auto names = [](const auto& accesses) {
    Lines arguments;
    for (const Access& access : accesses) arguments.emplace_back(access.argument);
    return arguments;
  };
  MlaAttention::Params params = mla_attention(arena, Layout::kTokenMajor);
  std::vector<Access> all;
  MlaAttention::accesses(params, all);
  params.batch.num_requests = 0;
  std::vector<Access> of_no_requests;
  MlaAttention::accesses(params, of_no_requests);
  EXPECT_EQ(names(of_no_requests), names(all));
  params.num_tokens = 0;
  std::vector<Access> of_no_tokens;
  MlaAttention::accesses(params, of_no_tokens);
  EXPECT_EQ(names(of_no_tokens), names(all));
}

TEST(Accesses, OfNoTokensAreNone) {
  Arena arena;
  const Layout layout = Layout::kTokenMajor;
  const auto without_tokens = [](auto params) {
    params.num_tokens = 0;
    return params;
  };
  EXPECT_EQ(declared<KvAppend>(without_tokens(kv_append(arena))), Lines{});
  EXPECT_EQ(declared<MlaAttention>(without_tokens(mla_attention(arena, layout))), Lines{});
  EXPECT_EQ(declared<GqaAttention>(without_tokens(gqa_attention(arena, layout))), Lines{});
  EXPECT_EQ(declared<NewAttention>(without_tokens(new_attention(arena, layout))), Lines{});
  EXPECT_EQ(declared<SplitCombine>(without_tokens(split_combine(arena, layout))), Lines{});
  EXPECT_EQ(declared<MergeStates>(without_tokens(merge_states(arena, layout))), Lines{});
  EXPECT_EQ(declared<EmptyShardMask>(without_tokens(empty_shard_mask(arena, layout))), Lines{});
  EXPECT_EQ(declared<LseCorrect>(without_tokens(lse_correct(arena, layout))), Lines{});
  EXPECT_EQ(declared<A2aPack>(without_tokens(a2a_pack(arena, layout))), Lines{});
  EXPECT_EQ(declared<A2aCombine>(without_tokens(a2a_combine(arena, layout))), Lines{});
  EXPECT_EQ(declared<OutProj>(without_tokens(out_proj(arena, layout))), Lines{});
}

}  // namespace
}  // namespace dcp::test
