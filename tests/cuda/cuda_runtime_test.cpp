// Runtime's contract on a GPU: captures, their memory, and graphs that are launched or not.
#include "runtime/cuda/cuda_runtime.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <span>

#include "core/error.hpp"
#include "kernels/round_rows.hpp"
#include "runtime/memcpy_op.hpp"
#include "tests/cuda/arena.hpp"

namespace dcp {
namespace {

constexpr std::size_t kBytes = 64 * sizeof(float);
// Large enough to be mapped on its own, so that CUDA forgets the address when it is freed.
constexpr std::size_t kOwnPages = std::size_t{8} << 20;

class CudaRuntimeTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    runtime_ = std::make_unique<CudaRuntime>(0, 0);
    s0_ = runtime_->make_stream("s0");
    s1_ = runtime_->make_stream("s1");
    from_ = runtime_->allocate_pinned("from", kBytes);
    to_ = runtime_->allocate("to", kBytes);
    set(1.0f);
  }

  Runtime& runtime() { return *runtime_; }
  void set(float value) {
    std::fill_n(reinterpret_cast<float*>(from_.data), kBytes / sizeof(float), value);
  }
  // What arrived in `to`, after everything has run; the next one starts from 0.
  float arrived() {
    EXPECT_FALSE(runtime_->synchronize().has_value());
    std::vector<float> values(kBytes / sizeof(float));
    runtime_->read(values.data(), to_.data, kBytes);
    for (const float value : values) EXPECT_EQ(value, values[0]);
    const std::vector<float> zeros(values.size());
    runtime_->write(to_.data, zeros.data(), kBytes);
    return values[0];
  }
  void move(Stream stream) { runtime().copy(stream, to_.data, from_.data, kBytes); }

  // Number of the error that the call throws; 0: none.
  template <class Call>
  static int error_of(const Call& call) {
    try {
      call();
    } catch (const ApiError& error) {
      return static_cast<int>(error.code());
    }
    return 0;
  }

  static bool is_device_memory(const void* data) {
    cudaPointerAttributes attributes{};
    const cudaError_t error = cudaPointerGetAttributes(&attributes, data);
    cudaGetLastError();
    return error == cudaSuccess && attributes.type == cudaMemoryTypeDevice;
  }

  // Freed memory is kept for a while, and holds NaN.
  static bool is_poisoned(const void* data) {
    std::uint32_t word = 0;
    return cudaMemcpy(&word, data, sizeof word, cudaMemcpyDefault) == cudaSuccess &&
           word == 0xFFFFFFFFu;
  }

  std::unique_ptr<CudaRuntime> runtime_;
  Stream s0_;
  Stream s1_;
  Buffer from_;
  Buffer to_;
};

TEST_F(CudaRuntimeTest, ARefusedCallInvalidatesTheCaptureAndTheStreamIsUsableAfterwards) {
  for (const ApiCall call :
       {ApiCall::kMalloc, ApiCall::kHostMalloc, ApiCall::kFree, ApiCall::kStreamSynchronize,
        ApiCall::kStreamQuery, ApiCall::kDeviceSynchronize}) {
    for (const CaptureMode mode : {CaptureMode::kGlobal, CaptureMode::kThreadLocal}) {
      runtime().begin_capture(s0_, mode);
      const Buffer lost = runtime().allocate("lost", kOwnPages);
      move(s0_);
      EXPECT_EQ(error_of([&] { runtime().call(call, s0_.id, CallingThread::kSame); }), 900);
      EXPECT_EQ(error_of([&] { move(s0_); }), 901);
      EXPECT_TRUE(runtime().is_capturing(s0_));
      EXPECT_EQ(error_of([&] { runtime().end_capture(s0_); }), 901);
      EXPECT_FALSE(runtime().is_capturing(s0_));
      EXPECT_FALSE(runtime().ledger().at(lost.id).live) << "the pool goes with its capture";

      set(3.0f);
      move(s0_);
      EXPECT_EQ(arrived(), 3.0f) << static_cast<int>(call);
      runtime().begin_capture(s0_, mode);
      move(s0_);
      const GraphExec exec = runtime().instantiate(runtime().end_capture(s0_));
      EXPECT_EQ(arrived(), 0.0f) << "a capture runs nothing";
      runtime().launch(exec, s0_);
      EXPECT_EQ(arrived(), 3.0f) << static_cast<int>(call);
      EXPECT_TRUE(is_poisoned(lost.data));
    }
  }
}

TEST_F(CudaRuntimeTest, AnOpWithoutAGpuBodyIsRefusedAndTheCaptureGoesOn) {
  const MemcpyOp::Params params{.to = to_.data, .from = from_.data, .size_bytes = kBytes};
  runtime().begin_capture(s0_, CaptureMode::kThreadLocal);
  EXPECT_THROW(enqueue<MemcpyOp>(runtime(), s0_, params), StepError);
  move(s0_);
  const Graph graph = runtime().end_capture(s0_);
  EXPECT_EQ(runtime().record_of(graph).nodes.size(), 1u);
}

TEST_F(CudaRuntimeTest, AllocationsInACaptureAreItsPoolsAndGoWithTheGraph) {
  runtime().begin_capture(s0_, CaptureMode::kThreadLocal);
  const Buffer freed = runtime().allocate("freed", kOwnPages);
  runtime().copy(s0_, freed.data, from_.data, kBytes);
  runtime().copy(s0_, to_.data, freed.data, kBytes);
  runtime().free(freed);
  const Buffer kept = runtime().allocate("kept", kOwnPages);
  const Graph graph = runtime().end_capture(s0_);
  const GraphExec exec = runtime().instantiate(graph);
  const std::string& pool = runtime().record_of(graph).pool;
  EXPECT_EQ(runtime().ledger().at(freed.id).owner, pool);
  EXPECT_EQ(runtime().ledger().at(kept.id).owner, pool);
  EXPECT_NE(pool, runtime().ledger().at(to_.id).owner);
  EXPECT_FALSE(runtime().ledger().at(freed.id).live);
  EXPECT_TRUE(runtime().ledger().at(kept.id).live);
  for (const float value : {5.0f, 6.0f, 7.0f}) {  // a drain between two replays takes nothing away
    set(value);
    runtime().launch(exec, s0_);
    EXPECT_EQ(arrived(), value);
    EXPECT_TRUE(is_device_memory(freed.data));
  }
  runtime().destroy(exec);
  runtime().destroy(graph);
  EXPECT_FALSE(runtime().ledger().at(kept.id).live);
  EXPECT_EQ(arrived(), 0.0f);
  EXPECT_TRUE(is_poisoned(freed.data));
  EXPECT_TRUE(is_poisoned(kept.data));
}

TEST_F(CudaRuntimeTest, PartsFollowEachOtherAndEachIsGivenBackByItself) {
  const BufferRequest requests[] = {{"a", 4}, {"b", 300}, {"c", kBytes}};
  const std::vector<Buffer> parts = runtime().allocate_together(requests);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[1].data - parts[0].data, 256);
  EXPECT_EQ(parts[2].data - parts[1].data, 512);
  const std::vector<float> ones(kBytes / sizeof(float), 1.0f);
  runtime().write(parts[2].data, ones.data(), kBytes);
  runtime().free(parts[1]);
  EXPECT_FALSE(runtime_->synchronize().has_value());
  std::vector<float> values(ones.size());
  runtime_->read(values.data(), parts[2].data, kBytes);
  EXPECT_EQ(values, ones);  // only what was given back is poisoned
  std::uint32_t bits = 0;
  runtime_->read(&bits, parts[1].data, sizeof(bits));
  EXPECT_EQ(bits, 0xFFFFFFFFu);
}

TEST_F(CudaRuntimeTest, AFreeTakesEffectAfterWhatWasEnqueuedBefore) {
  const Buffer between = runtime().allocate("between", kOwnPages);
  runtime().copy(s0_, between.data, from_.data, kBytes);
  runtime().copy(s0_, to_.data, between.data, kBytes);
  runtime().free(between);
  EXPECT_EQ(arrived(), 1.0f);
  EXPECT_TRUE(is_poisoned(between.data));
}

TEST_F(CudaRuntimeTest, AGraphInFlightIsNotDestroyed) {
  runtime().begin_capture(s0_, CaptureMode::kThreadLocal);
  move(s0_);
  const GraphExec exec = runtime().instantiate(runtime().end_capture(s0_));
  runtime().launch(exec, s0_);
  try {
    runtime().destroy(exec);
    FAIL() << "a launch is pending";
  } catch (const StepError& error) {
    EXPECT_EQ(error.kind(), "graph_in_flight");
  }
  EXPECT_EQ(arrived(), 1.0f);
  EXPECT_NO_THROW(runtime().destroy(exec));
}

TEST_F(CudaRuntimeTest, ArgumentsAreFrozenByTheEnqueueAndTheirContentsAreNot) {
  const Buffer other = runtime().allocate_pinned("other", kBytes);
  std::fill_n(reinterpret_cast<float*>(other.data), kBytes / sizeof(float), -1.0f);
  RoundRows::Params params;
  std::memset(&params, 0, sizeof params);
  params.in = reinterpret_cast<const float*>(from_.data);
  params.out = to_.data;
  params.num_elements = kBytes / sizeof(float);
  params.dtype = DType::kFp32;
  const auto bytes = std::as_bytes(std::span(&params, 1));
  const std::vector<std::byte> enqueued(bytes.begin(), bytes.end());
  runtime().begin_capture(s0_, CaptureMode::kThreadLocal);
  runtime().enqueue(s0_, kOpInfo<RoundRows>, bytes);
  params.in = reinterpret_cast<const float*>(other.data);
  const Graph graph = runtime().end_capture(s0_);
  EXPECT_EQ(runtime().record_of(graph).nodes.at(0).params, enqueued);
  const GraphExec exec = runtime().instantiate(graph);
  for (const float value : {2.0f, 9.0f}) {
    set(value);
    runtime().launch(exec, s0_);
    EXPECT_EQ(arrived(), value);
  }
}

TEST_F(CudaRuntimeTest, TwoCapturesAtOnceKeepTheirNodesAndPoolsApart) {
  runtime().begin_capture(s0_, CaptureMode::kThreadLocal);
  runtime().begin_capture(s1_, CaptureMode::kThreadLocal);
  move(s0_);
  move(s1_);
  move(s1_);
  const Graph first = runtime().end_capture(s0_);
  const Graph second = runtime().end_capture(s1_);
  EXPECT_EQ(runtime().record_of(first).nodes.size(), 1u);
  EXPECT_EQ(runtime().record_of(second).nodes.size(), 2u);
  EXPECT_EQ(runtime().record_of(second).nodes.at(1).dependencies, std::vector<int>{0});
  EXPECT_NE(runtime().record_of(first).pool, runtime().record_of(second).pool);
}

TEST_F(CudaRuntimeTest, TheRecordHasTheEdgesOfAForkAndItsJoin) {
  const Event forked = runtime().make_event();
  const Event joined = runtime().make_event();
  runtime().begin_capture(s0_, CaptureMode::kThreadLocal);
  move(s0_);
  runtime().record(forked, s0_);
  runtime().wait(s1_, forked);
  move(s1_);
  move(s0_);
  runtime().record(joined, s1_);
  runtime().wait(s0_, joined);
  move(s0_);
  const GraphRecord& record = runtime().record_of(runtime().end_capture(s0_));
  ASSERT_EQ(record.nodes.size(), 4u);
  EXPECT_EQ(record.nodes[0].dependencies, std::vector<int>{});
  EXPECT_EQ(record.nodes[1].dependencies, std::vector<int>{0});
  EXPECT_EQ(record.nodes[2].dependencies, std::vector<int>{0});
  EXPECT_EQ(record.nodes[3].dependencies, (std::vector<int>{1, 2}));
  EXPECT_EQ(record.nodes[1].stream, "s1");
}

TEST_F(CudaRuntimeTest, TheGraphIsReadBackNodeByNodeWithWhatEachIsGiven) {
  const Event forked = runtime().make_event();
  const Event joined = runtime().make_event();
  RoundRows::Params params{.in = reinterpret_cast<const float*>(from_.data),
                           .out = to_.data,
                           .num_elements = kBytes / sizeof(float),
                           .dtype = DType::kFp32};
  runtime().begin_capture(s0_, CaptureMode::kThreadLocal);
  move(s0_);
  runtime().record(forked, s0_);
  runtime().wait(s1_, forked);
  enqueue<RoundRows>(runtime(), s1_, params);
  runtime().record(joined, s1_);
  runtime().wait(s0_, joined);
  move(s0_);
  const GraphRecord& record = runtime().record_of(runtime().end_capture(s0_));
  const DeviceGraph& device = record.device;
  ASSERT_EQ(record.nodes.size(), 3u);
  ASSERT_EQ(device.nodes.size(), 3u);
  ASSERT_EQ(device.edges.size(), 3u);
  EXPECT_EQ(device.count(DeviceNodeKind::kMemcpy), 2u);
  EXPECT_EQ(device.count(DeviceNodeKind::kKernel), 1u);
  EXPECT_EQ(device.ops_without_params, std::vector<int>{});
  for (const DeviceEdge& edge : device.edges) {
    const auto& before = record.nodes.at(device.nodes.at(edge.to).op).dependencies;
    const int from = device.nodes.at(edge.from).op;
    EXPECT_NE(std::find(before.begin(), before.end(), from), before.end()) << from;
    EXPECT_FALSE(edge.is_programmatic);
  }
  for (const DeviceNode& node : device.nodes) {
    if (node.kind == DeviceNodeKind::kMemcpy) {
      EXPECT_EQ(node.from, from_.data);
      EXPECT_EQ(node.to, to_.data);
      EXPECT_EQ(node.size_bytes, kBytes);
      continue;
    }
    EXPECT_EQ(node.op, 1);
    EXPECT_NE(node.function.find("round_elements"), std::string::npos) << node.function;
    ASSERT_EQ(node.arguments.size(), 1u);
    EXPECT_EQ(node.arguments[0], record.nodes[1].params);
  }
}

TEST_F(CudaRuntimeTest, AnOpWhoseKernelIsGivenOtherBytesIsNamed) {
  runtime().begin_capture(s0_, CaptureMode::kThreadLocal);
  const MemcpyOp::Params declared{.to = to_.data, .from = from_.data, .size_bytes = kBytes};
  runtime_->enqueue_foreign(s0_, kOpInfo<MemcpyOp>, std::as_bytes(std::span(&declared, 1)),
                            [&](cudaStream_t at, const std::function<void()>& launched) {
                              cudaMemcpyAsync(to_.data, from_.data, kBytes / 2, cudaMemcpyDefault,
                                              at);
                              launched();
                            });
  move(s0_);
  const GraphRecord& record = runtime().record_of(runtime().end_capture(s0_));
  EXPECT_EQ(record.device.ops_without_params, std::vector<int>{0});
}

}  // namespace
}  // namespace dcp
