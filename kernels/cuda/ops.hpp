// The GPU bodies of the ops: one file each, one table of all.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "kernels/a2a_combine.hpp"
#include "kernels/a2a_pack.hpp"
#include "kernels/cuda/fault.hpp"
#include "kernels/direct_advance.hpp"
#include "kernels/direct_dispatch.hpp"
#include "kernels/direct_exchange.hpp"
#include "kernels/direct_gather_ops.hpp"
#include "kernels/direct_lines.hpp"
#include "kernels/direct_publish.hpp"
#include "kernels/direct_read.hpp"
#include "kernels/direct_wait.hpp"
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

namespace dcp {

// Where a kernel is launched. `fault` is memory of the rank that host and device see.
struct Launch {
  cudaStream_t stream;
  Fault* fault;
};

// Each launches at most one kernel, and none where there is nothing to do. Errors of the launch are
// left for cudaGetLastError.
void launch(const A2aCombine::Params& params, const Launch& at);
void launch(const A2aPack::Params& params, const Launch& at);
void launch(const DirectAdvance::Params& params, const Launch& at);
void launch(const DirectDispatch::Params& params, const Launch& at);
void launch(const DirectExchange::Params& params, const Launch& at);
void launch(const DirectLines::Params& params, const Launch& at);
void launch(const DirectPublish::Params& params, const Launch& at);
void launch(const DirectRead::Params& params, const Launch& at);
void launch(const DirectReadRows::Params& params, const Launch& at);
void launch(const DirectSendRows::Params& params, const Launch& at);
void launch(const DirectStoreRows::Params& params, const Launch& at);
void launch(const DirectTakeRows::Params& params, const Launch& at);
void launch(const DirectWait::Params& params, const Launch& at);
void launch(const EmptyShardMask::Params& params, const Launch& at);
void launch(const GqaAttention::Params& params, const Launch& at);
void launch(const KvAppend::Params& params, const Launch& at);
void launch(const LseCorrect::Params& params, const Launch& at);
void launch(const MergeStates::Params& params, const Launch& at);
void launch(const MlaAttention::Params& params, const Launch& at);
void launch(const NewAttention::Params& params, const Launch& at);
void launch(const OutProj::Params& params, const Launch& at);
void launch(const RoundRows::Params& params, const Launch& at);
void launch(const SplitCombine::Params& params, const Launch& at);

struct CudaOp {
  const OpInfo* op;
  void (*launch)(const void* params, const Launch& at);
};

std::span<const CudaOp> cuda_ops();

// Null where the op has no GPU body.
const CudaOp* find_cuda_op(const OpInfo& op);

}  // namespace dcp
