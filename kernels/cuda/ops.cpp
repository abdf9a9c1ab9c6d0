#include "kernels/cuda/ops.hpp"

#include <algorithm>
#include <array>

namespace dcp {

namespace {

template <Op O>
constexpr CudaOp cuda_op() {
  return {&kOpInfo<O>, [](const void* params, const Launch& at) {
            launch(*static_cast<const typename O::Params*>(params), at);
          }};
}

constexpr std::array kOps = {
    cuda_op<A2aCombine>(),
    cuda_op<A2aPack>(),
    cuda_op<DirectAdvance>(),
    cuda_op<DirectDispatch>(),
    cuda_op<DirectKvAdvance>(),
    cuda_op<DirectKvPublish>(),
    cuda_op<DirectKvRead>(),
    cuda_op<DirectKvSend>(),
    cuda_op<DirectKvStore>(),
    cuda_op<DirectKvTake>(),
    cuda_op<DirectKvWait>(),
    cuda_op<DirectPublish>(),
    cuda_op<DirectQueryAdvance>(),
    cuda_op<DirectQueryPublish>(),
    cuda_op<DirectQuerySend>(),
    cuda_op<DirectQueryStore>(),
    cuda_op<DirectQueryWait>(),
    cuda_op<DirectRead>(),
    cuda_op<DirectExchange>(),
    cuda_op<DirectLines>(),
    cuda_op<DirectWait>(),
    cuda_op<EmptyShardMask>(),
    cuda_op<GqaAttention>(),
    cuda_op<KvAppend>(),
    cuda_op<LseCorrect>(),
    cuda_op<MergeStates>(),
    cuda_op<MlaAttention>(),
    cuda_op<NewAttention>(),
    cuda_op<OutProj>(),
    cuda_op<RoundRows>(),
    cuda_op<SplitCombine>(),
};

}  // namespace

std::span<const CudaOp> cuda_ops() { return kOps; }

const CudaOp* find_cuda_op(const OpInfo& op) {
  const auto found =
      std::find_if(kOps.begin(), kOps.end(), [&](const CudaOp& each) { return each.op == &op; });
  return found == kOps.end() ? nullptr : found;
}

}  // namespace dcp
