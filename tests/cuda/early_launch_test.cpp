// Kernels that come to the GPU before the one ahead of them is done.
#include <algorithm>
#include <memory>
#include <ostream>
#include <vector>

#include "core/packed_rows.hpp"
#include "kernels/a2a_combine.hpp"
#include "kernels/a2a_pack.hpp"
#include "kernels/lse_correct.hpp"
#include "runtime/cuda/cuda_runtime.hpp"
#include "tests/cuda/arena.hpp"

namespace dcp {
namespace {

constexpr int kWorldSize = 8;
constexpr int kHeads = 128;
constexpr int kDim = 512;
constexpr int kRounds = 8;

struct Case {
  std::int64_t num_tokens;
  A2aLayout layout;
};
void PrintTo(const Case& test, std::ostream* out) {
  *out << test.num_tokens << (test.layout == A2aLayout::kSplit ? " split" : " interleaved");
}

// A ring of ops, each of which reads what the one before it wrote, and writes what the one before
// that read: correct, pack, combine.
class EarlyLaunch : public GpuTest, public testing::WithParamInterface<Case> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    runtime_ = std::make_unique<CudaRuntime>(0, 0);
    stream_ = runtime_->make_stream("s0");
    const auto rows = static_cast<std::size_t>(tokens() * kHeads);
    const std::size_t row_bytes = kDim * size_bytes(DType::kBf16);
    out_ = runtime_->allocate("out", rows * row_bytes);
    scaled_ = runtime_->allocate("scaled", rows * row_bytes);
    send_ = runtime_->allocate("send", rows * (row_bytes + sizeof(float)));
    lses_ = runtime_->allocate("lses", rows * kWorldSize * sizeof(float));
    lse_ = runtime_->allocate("lse", rows * sizeof(float));
    empty_ranks_ = runtime_->allocate("empty_ranks", tokens() * sizeof(std::uint64_t));
    Arena values;
    fill(lses_, values, values.add_random(rows * kWorldSize, DType::kFp32, 2.0f));
    fill(empty_ranks_, values, values.add_empty_ranks(tokens()));
    out_values_ = values.add_random(rows * kDim, DType::kBf16);
    values_ = values.host_bytes();
  }

  std::int64_t tokens() const { return GetParam().num_tokens; }
  Runtime& runtime() { return *runtime_; }

  void fill(const Buffer& buffer, Arena& values, std::size_t offset) {
    runtime_->write(buffer.data, values.host() + offset, buffer.size_bytes);
  }

  // Calls `after_each(what was written)` after each op.
  template <class AfterEach>
  void enqueue_rounds(const AfterEach& after_each) {
    const HeadRows out{out_.data, token_major(kHeads, kDim), DType::kBf16};
    const HeadRows scaled{scaled_.data, token_major(kHeads, kDim), DType::kBf16};
    const auto* const empty_ranks = reinterpret_cast<const std::uint64_t*>(empty_ranks_.data);
    const LseCorrect::Params correct{.lses = reinterpret_cast<const float*>(lses_.data),
                                     .empty_ranks = empty_ranks,
                                     .out = out,
                                     .scaled = scaled,
                                     .lse = reinterpret_cast<float*>(lse_.data),
                                     .num_tokens = tokens(),
                                     .num_heads = kHeads,
                                     .head_dim = kDim,
                                     .world_size = kWorldSize,
                                     .rank = 3,
                                     .first_lse_head = 0,
                                     .num_lse_heads = kHeads,
                                     .base = LseBase::kE};
    const A2aPack::Params pack{.out = scaled,
                               .lse = {lse_.data, token_major(kHeads, 1), DType::kFp32},
                               .send = send_.data,
                               .empty = {empty_ranks, 5},
                               .num_tokens = tokens(),
                               .num_heads = kHeads,
                               .head_dim = kDim,
                               .world_size = kWorldSize,
                               .layout = GetParam().layout};
    const A2aCombine::Params combine{.recv = send_.data,
                                     .out = out,  // the first heads of each token
                                     .lse = nullptr,
                                     .num_tokens = tokens(),
                                     .heads_per_rank = kHeads / kWorldSize,
                                     .head_dim = kDim,
                                     .world_size = kWorldSize,
                                     .base = LseBase::kE,
                                     .layout = GetParam().layout};
    for (int round = 0; round < kRounds; ++round) {
      enqueue<LseCorrect>(runtime(), stream_, correct);
      after_each(scaled_);
      enqueue<A2aPack>(runtime(), stream_, pack);
      after_each(send_);
      enqueue<A2aCombine>(runtime(), stream_, combine);
      after_each(out_);
    }
  }

  void reset() { runtime_->write(out_.data, values_.data() + out_values_, out_.size_bytes); }

  std::vector<std::byte> result() {
    EXPECT_FALSE(runtime_->synchronize().has_value());
    std::vector<std::byte> bytes(out_.size_bytes);
    runtime_->read(bytes.data(), out_.data, bytes.size());
    return bytes;
  }

  template <class AfterEach>
  Graph capture(const AfterEach& after_each) {
    runtime().begin_capture(stream_, CaptureMode::kThreadLocal);
    enqueue_rounds(after_each);
    return runtime().end_capture(stream_);
  }

  void expect_replays(Graph graph, const std::vector<std::byte>& want) {
    const GraphExec exec = runtime().instantiate(graph);
    for (int replay = 0; replay < 20; ++replay) {
      reset();
      runtime().launch(exec, stream_);
      EXPECT_EQ(first_difference(result(), want), -1) << "replay " << replay;
    }
    runtime().destroy(exec);
  }

  std::unique_ptr<CudaRuntime> runtime_;
  Stream stream_;
  Buffer out_, scaled_, send_, lses_, lse_, empty_ranks_;
  std::vector<std::byte> values_;
  std::size_t out_values_ = 0;
};

TEST_P(EarlyLaunch, NothingIsReadOrWrittenBeforeThePredecessorIsDone) {
  reset();
  enqueue_rounds([&](const Buffer&) { EXPECT_FALSE(runtime_->synchronize().has_value()); });
  const auto one_by_one = result();
  expect_replays(capture([](const Buffer&) {}), one_by_one);
}

// What an op wrote is away, and back again, when the next one may begin: by copies on the same
// stream, or on another that this one waits for.
TEST_P(EarlyLaunch, NothingIsReadOrWrittenBeforeACopyOrAnotherStreamIsDone) {
  const Buffer kept = runtime_->allocate("kept", send_.size_bytes);
  const Buffer other = runtime_->allocate("other", send_.size_bytes);
  const std::vector<std::byte> nans(other.size_bytes, std::byte{0xFF});
  runtime_->write(other.data, nans.data(), nans.size());
  const auto take_away = [&](const Stream& stream, const Buffer& written) {
    runtime().copy(stream, kept.data, written.data, written.size_bytes);
    runtime().copy(stream, written.data, other.data, written.size_bytes);
    runtime().copy(stream, written.data, kept.data, written.size_bytes);
  };
  const Stream side = runtime().make_stream("s1");
  const Event forked = runtime().make_event();
  const Event joined = runtime().make_event();
  reset();
  enqueue_rounds([&](const Buffer&) { EXPECT_FALSE(runtime_->synchronize().has_value()); });
  const auto one_by_one = result();
  const Graph behind_copies = capture([&](const Buffer& written) { take_away(stream_, written); });
  const auto& edges = runtime().record_of(behind_copies).device.edges;
  EXPECT_TRUE(std::none_of(edges.begin(), edges.end(),
                           [](const auto& edge) { return edge.is_programmatic; }));
  expect_replays(behind_copies, one_by_one);
  expect_replays(capture([&](const Buffer& written) {
                   runtime().record(forked, stream_);
                   runtime().wait(side, forked);
                   take_away(side, written);
                   runtime().record(joined, side);
                   runtime().wait(stream_, joined);
                 }),
                 one_by_one);
}

TEST_P(EarlyLaunch, AGraphHasItAsAProgrammaticEdge) {
  int major = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  const DeviceGraph& graph = runtime().record_of(capture([](const Buffer&) {})).device;
  ASSERT_EQ(graph.edges.size(), 3u * kRounds - 1);
  const auto num_early = std::count_if(graph.edges.begin(), graph.edges.end(),
                                       [](const auto& edge) { return edge.is_programmatic; });
  // Vectors of a middle size come behind their predecessor.
  const bool packs_behind = tokens() == 64 && GetParam().layout == A2aLayout::kSplit;
  EXPECT_EQ(num_early, major < 9 ? 0 : 3 * kRounds - 1 - (packs_behind ? kRounds : 0));
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, EarlyLaunch,
    testing::Values(Case{1, A2aLayout::kInterleaved}, Case{1, A2aLayout::kSplit},
                    Case{8, A2aLayout::kInterleaved}, Case{64, A2aLayout::kInterleaved},
                    Case{64, A2aLayout::kSplit}, Case{300, A2aLayout::kInterleaved},
                    Case{300, A2aLayout::kSplit}));

}  // namespace
}  // namespace dcp
