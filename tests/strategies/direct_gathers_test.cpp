// The gathers by stores to peers: every byte is what the collective leaves, and no other is
// touched.
#include "strategies/direct_gathers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "comm/simulated/host_world.hpp"
#include "core/error.hpp"
#include "strategies/symmetric_buffers.hpp"

namespace dcp {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::byte kUntouched{0xA5};
constexpr int kUbatches = 2;

// Any pattern may lie in a row: NaNs of all kinds too.
Bytes random_bytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(draw());
  return bytes;
}

StepShape shape_of(int world_size, std::int64_t num_tokens, DType dtype) {
  StepShape shape{};
  shape.world_size = world_size;
  shape.layers = 1;
  shape.num_tokens = num_tokens;
  shape.max_num_tokens = 5;
  shape.max_exchange_tokens = 5;
  shape.heads_per_rank = 2;
  shape.num_heads = 2 * world_size;
  shape.padded_num_heads = shape.num_heads + 3;
  shape.qk_head_dim = 24;
  shape.head_dim = 16;
  shape.dtype = dtype;
  return shape;
}

// All ranks with the symmetric buffers of every ubatch, which hold a mark, and buffers of their
// own.
class GatherWorld {
 public:
  GatherWorld(const StepShape& shape, const BufferPlan& plan, std::uint64_t seed)
      : shape_(shape), plan_(plan), world_(shape.world_size, seed) {
    for (int u = 0; u < kUbatches; ++u) symmetric_.push_back(allocate_symmetric(world_, plan_));
    own_.resize(static_cast<std::size_t>(shape.world_size));
    world_.each_rank([&](Rank& rank) {
      streams_.push_back(rank.runtime.make_stream("compute"));
      for (int u = 0; u < kUbatches; ++u) mark(rank, u);
    });
  }

  std::byte* allocate(Rank& rank, std::string_view name, std::size_t size_bytes) {
    const Buffer buffer = rank.runtime.allocate(name, size_bytes);
    own_[static_cast<std::size_t>(rank.index)].add(name, buffer);
    return buffer.data;
  }

  void each_rank(
      const std::function<void(const Lane&, const StepShape&, const BufferSet&)>& enqueue) {
    world_.each_rank([&](Rank& rank) {
      const Stream stream = streams_[static_cast<std::size_t>(rank.index)];
      const Lane lane{.rank = rank,
                      .collectives = *rank.communicators[0],
                      .compute = stream,
                      .comm = stream,
                      .forked = {},
                      .joined = {}};
      std::vector<const BufferSet*> sets;
      for (const BufferSet& set : symmetric_[0]) sets.push_back(&set);
      BufferSet buffers = own_[static_cast<std::size_t>(rank.index)];
      add_symmetric(plan_, rank.index, sets, buffers);
      StepShape shape = shape_;
      shape.rank = rank.index;
      enqueue(lane, shape, buffers);
    });
  }
  void drain() { world_.drain(); }
  HostWorld& world() { return world_; }

  Bytes read(int rank, std::string_view name) { return bytes_of(own_[at(rank)], name); }
  Bytes read_symmetric(int rank, std::string_view name, int ubatch = 0) {
    return bytes_of(symmetric_[at(ubatch)][at(rank)], name);
  }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  static Bytes bytes_of(const BufferSet& set, std::string_view name) {
    const Buffer& buffer = *set.find(name);
    return {buffer.data, buffer.data + buffer.size_bytes};
  }

  void mark(Rank& rank, int ubatch) {
    for (const BufferSpec& spec : plan_.specs()) {
      const Buffer& buffer = *symmetric_[at(ubatch)][at(rank.index)].find(spec.name);
      std::fill_n(buffer.data, buffer.size_bytes, kUntouched);
      const auto words = content_at(spec, 0, static_cast<std::uint32_t>(shape_.direct.slots));
      if (!words.empty()) rank.runtime.write(buffer.data, words.data(), spec.size_bytes);
    }
  }

  StepShape shape_;
  BufferPlan plan_;
  HostWorld world_;
  std::vector<Stream> streams_;                    // by rank
  std::vector<std::vector<BufferSet>> symmetric_;  // by ubatch, rank
  std::vector<BufferSet> own_;                     // by rank
};

bool is_untouched(const Bytes& bytes, std::size_t from = 0) {
  return std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(from), bytes.end(),
                     [](std::byte byte) { return byte == kUntouched; });
}

// Gathers twice, with other bytes, by both ways.
void check_query_gather(const StepShape& shape) {
  BufferPlan plan;
  plan_direct_query_gather(shape, plan);
  GatherWorld ranks(shape, plan, 7);
  const std::size_t head = static_cast<std::size_t>(shape.qk_head_dim) * size_bytes(shape.dtype);
  const auto tokens = static_cast<std::size_t>(shape.num_tokens);
  const std::size_t row = head * static_cast<std::size_t>(shape.heads_per_rank);
  ranks.world().each_rank([&](Rank& rank) {
    ranks.allocate(rank, "q", tokens * row);
    ranks.allocate(rank, "all", tokens * row * static_cast<std::size_t>(shape.world_size));
  });
  for (std::uint64_t round = 0; round < 2; ++round) {
    ranks.each_rank([&](const Lane& lane, const StepShape& own, const BufferSet& buffers) {
      const Bytes query = random_bytes(tokens * row, 100 * round + static_cast<unsigned>(own.rank));
      lane.rank.runtime.write(buffers.at("q"), query.data(), query.size());
      lane.collective(CollectiveKind::kAllGather,
                      {.send = buffers.at("q"),
                       .recv = buffers.at("all"),
                       .count = own.num_tokens * own.heads_per_rank * own.qk_head_dim,
                       .dtype = own.dtype});
      enqueue_direct_query_gather(lane, own, buffers, buffers.at("q"));
    });
    ranks.drain();
    for (int rank = 0; rank < shape.world_size; ++rank) {
      const Bytes all = ranks.read(rank, "all");
      const Bytes direct = ranks.read_symmetric(rank, "q_gathered");
      for (std::size_t token = 0; token < tokens; ++token) {
        for (std::size_t from = 0; from < static_cast<std::size_t>(shape.world_size); ++from) {
          const auto got =
              direct.begin() + static_cast<std::ptrdiff_t>((token * shape.world_size + from) * row);
          const auto want =
              all.begin() + static_cast<std::ptrdiff_t>((from * tokens + token) * row);
          ASSERT_TRUE(std::equal(want, want + static_cast<std::ptrdiff_t>(row), got))
              << "rank " << rank << ", token " << token << " of rank " << from;
        }
      }
      ASSERT_TRUE(is_untouched(direct, tokens * row * static_cast<std::size_t>(shape.world_size)))
          << "rows and padded heads behind the step's";
      ASSERT_TRUE(is_untouched(ranks.read_symmetric(rank, "q_gathered", 1))) << "other ubatch";
    }
  }
}

TEST(DirectQueryGather, LeavesTheBytesOfTheCollectiveAndNoOther) {
  for (const DType dtype : {DType::kFp16, DType::kBf16, DType::kFp32}) {
    for (const int world_size : {2, 3, 5, 8}) {
      for (const std::int64_t num_tokens : {1, 3, 5}) {
        SCOPED_TRACE(std::string(name(dtype)) + ", N " + std::to_string(world_size) + ", T " +
                     std::to_string(num_tokens));
        check_query_gather(shape_of(world_size, num_tokens, dtype));
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

// Two gathers, between which every rank reads the first; how often a rank reads something else.
int count_stale_reads(bool meets_between) {
  const StepShape shape = shape_of(3, 2, DType::kBf16);
  BufferPlan plan;
  plan_direct_query_gather(shape, plan);
  constexpr std::size_t kRow = 2 * 24 * 2;
  int num_stale = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    GatherWorld ranks(shape, plan, seed);
    ranks.world().each_rank([&](Rank& rank) {
      ranks.allocate(rank, "read", 3 * 2 * kRow);
      ranks.allocate(rank, "met", 3 * 16);
      for (const char* name : {"first", "second"}) {
        std::byte* query = ranks.allocate(rank, name, 2 * kRow);
        const Bytes bytes(2 * kRow, std::byte(name[0]));
        rank.runtime.write(query, bytes.data(), bytes.size());
      }
    });
    ranks.each_rank([&](const Lane& lane, const StepShape& own, const BufferSet& buffers) {
      enqueue_direct_query_gather(lane, own, buffers, buffers.at("first"));
      lane.rank.runtime.copy(lane.compute, buffers.at("read"), buffers.at("q_gathered"),
                             3 * 2 * kRow);
      if (meets_between) {
        lane.collective(CollectiveKind::kAllGather, {.send = buffers.at("first"),
                                                     .recv = buffers.at("met"),
                                                     .count = 4,
                                                     .dtype = DType::kFp32});
      }
      enqueue_direct_query_gather(lane, own, buffers, buffers.at("second"));
    });
    ranks.drain();
    for (int rank = 0; rank < 3; ++rank) {
      if (ranks.read(rank, "read") != Bytes(3 * 2 * kRow, std::byte{'f'})) ++num_stale;
    }
  }
  return num_stale;
}

TEST(DirectQueryGather, OnlyAMeetingOfAllRanksKeepsTheNextOneFromStoringUnderAReader) {
  EXPECT_EQ(count_stale_reads(true), 0);
  EXPECT_GT(count_stale_reads(false), 0);
}

// A kernel of a fixed number of heads reads so many in every row, the last row's padding too.
TEST(DirectQueryGather, PaddedHeadsOfTheLastRowLieInsideTheBuffer) {
  const StepShape shape = shape_of(4, 5, DType::kBf16);
  BufferPlan plan;
  plan_direct_query_gather(shape, plan);
  const std::size_t head = static_cast<std::size_t>(shape.qk_head_dim) * size_bytes(shape.dtype);
  const auto last = static_cast<std::size_t>((shape.max_exchange_tokens - 1) * shape.num_heads);
  EXPECT_GE(plan.specs().front().size_bytes,
            (last + static_cast<std::size_t>(shape.padded_num_heads)) * head);
  EXPECT_EQ(plan.specs().front().size_bytes, 5u * 11u * head);
}

StepShape kv_shape(int world_size, std::int64_t rows, std::int64_t dim, DType dtype) {
  StepShape shape = shape_of(world_size, 1, DType::kBf16);
  shape.kv_gather = {.tokens = rows * world_size, .dim = dim, .dtype = dtype};
  return shape;
}

void check_kv_gather(const StepShape& shape) {
  BufferPlan plan;
  plan_direct_kv_gather(shape, plan);
  GatherWorld ranks(shape, plan, 3);
  const KvGatherSpec& gather = shape.kv_gather;
  const std::size_t all =
      static_cast<std::size_t>(gather.tokens * gather.dim) * size_bytes(gather.dtype);
  const std::size_t own_bytes = all / static_cast<std::size_t>(shape.world_size);
  ranks.world().each_rank([&](Rank& rank) {
    ranks.allocate(rank, "chunk", own_bytes);
    ranks.allocate(rank, "all", all);
    ranks.allocate(rank, "gathered", all);
  });
  Bytes before(2 * all, kUntouched);
  for (std::uint64_t round = 0; round < 4; ++round) {
    ranks.each_rank([&](const Lane& lane, const StepShape& own, const BufferSet& buffers) {
      const Bytes chunk = random_bytes(own_bytes, 100 * round + static_cast<unsigned>(own.rank));
      lane.rank.runtime.write(buffers.at("chunk"), chunk.data(), chunk.size());
      lane.collective(CollectiveKind::kAllGather,
                      {.send = buffers.at("chunk"),
                       .recv = buffers.at("all"),
                       .count = gather.tokens / own.world_size * gather.dim,
                       .dtype = gather.dtype});
      enqueue_direct_kv_gather(lane, own, buffers, buffers.at("chunk"), buffers.at("gathered"));
    });
    ranks.drain();
    // The first exchange has epoch 1.
    const auto slot = static_cast<std::ptrdiff_t>((round + 1) % 2 * all);
    const Bytes want = ranks.read(0, "all");
    std::copy(want.begin(), want.end(), before.begin() + slot);
    for (int rank = 0; rank < shape.world_size; ++rank) {
      ASSERT_EQ(ranks.read(rank, "gathered"), ranks.read(rank, "all")) << "rank " << rank;
      ASSERT_EQ(ranks.read_symmetric(rank, "kv_slots"), before) << "slots of rank " << rank;
      ASSERT_TRUE(is_untouched(ranks.read_symmetric(rank, "kv_slots", 1))) << "other ubatch";
    }
  }
}

TEST(DirectKvGather, LeavesTheBytesOfTheCollectiveInItsSlotAndNoOther) {
  for (const DType dtype : {DType::kFp16, DType::kBf16, DType::kFp8E4m3}) {
    for (const int world_size : {2, 3, 5, 8}) {
      for (const std::int64_t rows : {1, 3, 7}) {
        SCOPED_TRACE(std::string(name(dtype)) + ", N " + std::to_string(world_size) + ", T " +
                     std::to_string(rows));
        check_kv_gather(kv_shape(world_size, rows, 32, dtype));
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

std::string refusal_of(const std::function<void()>& require) {
  try {
    require();
  } catch (const StepError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(DirectGathers, RowsAreMultiplesOfSixteenBytes) {
  StepShape shape = shape_of(2, 1, DType::kBf16);
  const auto query = [&] { require_query_alignment(shape); };
  shape.padded_num_heads = shape.num_heads;
  EXPECT_EQ(refusal_of(query), "accepted");
  shape.heads_per_rank = 1;
  shape.qk_head_dim = 12;
  EXPECT_EQ(refusal_of(query),
            "alignment: the direct gather moves rows in pieces of 16 bytes, and a rank's query "
            "row has 24 bytes");
  shape.heads_per_rank = 2;
  EXPECT_EQ(refusal_of(query), "accepted");
  shape.padded_num_heads = 5;
  EXPECT_EQ(refusal_of(query),
            "alignment: the direct gather moves rows in pieces of 16 bytes, and a query row of "
            "padded heads has 120 bytes");

  shape.kv_gather = {.tokens = 4, .dim = 576, .dtype = DType::kFp8E4m3};
  const auto kv = [&] { require_kv_alignment(shape); };
  EXPECT_EQ(refusal_of(kv), "accepted");
  shape.kv_gather.dim = 568;
  EXPECT_EQ(refusal_of(kv),
            "alignment: the direct gather moves rows in pieces of 16 bytes, and a KV row has "
            "568 bytes");
}

}  // namespace
}  // namespace dcp
