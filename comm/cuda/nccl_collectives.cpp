#include "comm/cuda/nccl_collectives.hpp"

#include <cstring>
#include <string>

#include "core/error.hpp"
#include "kernels/accesses.hpp"
#include "runtime/cuda/cuda_error.hpp"

namespace dcp {

namespace {

NcclDataType nccl_type(DType dtype) {
  switch (dtype) {
    case DType::kBf16:
      return NcclDataType::kBfloat16;
    case DType::kFp16:
      return NcclDataType::kFloat16;
    case DType::kFp8E4m3:
      return NcclDataType::kUint8;
    case DType::kFp32:
      break;
  }
  return NcclDataType::kFloat32;
}

}  // namespace

void NcclCollective::accesses(const Params& params, std::vector<Access>& out) {
  const auto part = params.count * static_cast<std::int64_t>(size_bytes(params.dtype));
  const bool sends_all =
      params.kind == CollectiveKind::kAllToAll || params.kind == CollectiveKind::kReduceScatter;
  const bool receives_all =
      params.kind == CollectiveKind::kAllToAll || params.kind == CollectiveKind::kAllGather;
  declare(out, params.send, sends_all ? params.world_size * part : part, Mode::kRead, "send");
  declare(out, params.recv, receives_all ? params.world_size * part : part, Mode::kWrite, "recv");
}

NcclCollectives::NcclCollectives(const NcclApi& nccl, CudaRuntime& runtime, int world_size,
                                 const NcclUniqueId& id)
    : nccl_(nccl), runtime_(runtime), world_size_(world_size) {
  check_nccl(nccl_, nccl_.comm_init_rank(&comm_, world_size, id, runtime.rank()),
             "ncclCommInitRank");
}

NcclCollectives::~NcclCollectives() {
  destroy();
  if (aborting_.joinable()) aborting_.join();
}

void NcclCollectives::destroy() {
  if (comm_ != nullptr) nccl_.comm_destroy(comm_);
  comm_ = nullptr;
}

void NcclCollectives::abort() {
  if (comm_ == nullptr) return;
  aborting_ = std::thread([&nccl = nccl_, comm = comm_, device = runtime_.device()] {
    cudaSetDevice(device);
    nccl.comm_abort(comm);
  });
  comm_ = nullptr;
}

std::string NcclCollectives::async_error() const {
  int result = 0;
  if (comm_ == nullptr || nccl_.comm_get_async_error(comm_, &result) != 0) return "";
  return result == 0 || result == kNcclInProgress ? "" : nccl_.get_error_string(result);
}

void NcclCollectives::enqueue(Stream stream, CollectiveKind kind, const Message& message) {
  if (comm_ == nullptr) {
    throw StepError("comm_not_initialised", "rank " + std::to_string(rank()) + " calls " +
                                                std::string(name(kind)) +
                                                " but the communicators were destroyed");
  }
  NcclCollective::Params params;
  std::memset(&params, 0, sizeof(params));  // padding is no data
  params.comm = comm_;
  params.send = message.send;
  params.recv = message.recv;
  params.count = message.count;
  params.world_size = world_size_;
  params.kind = kind;
  params.dtype = message.dtype;
  runtime_.enqueue_foreign(stream, kOpInfo<NcclCollective>, std::as_bytes(std::span(&params, 1)),
                           [&](cudaStream_t at, const auto& launched) {
                             start(params, at);
                             launched();
                           });
}

void NcclCollectives::start(const NcclCollective::Params& p, cudaStream_t stream) const {
  const auto count = static_cast<std::size_t>(p.count);
  const NcclDataType type = nccl_type(p.dtype);
  switch (p.kind) {
    case CollectiveKind::kAllGather:
      return check_nccl(nccl_, nccl_.all_gather(p.send, p.recv, count, type, comm_, stream),
                        "ncclAllGather");
    case CollectiveKind::kReduceScatter:
      return check_nccl(nccl_,
                        nccl_.reduce_scatter(p.send, p.recv, count, type, kNcclSum, comm_, stream),
                        "ncclReduceScatter");
    case CollectiveKind::kAllReduce:
      return check_nccl(nccl_,
                        nccl_.all_reduce(p.send, p.recv, count, type, kNcclSum, comm_, stream),
                        "ncclAllReduce");
    case CollectiveKind::kAllToAll:
      break;
  }
  const std::size_t part = count * size_bytes(p.dtype);
  check_nccl(nccl_, nccl_.group_start(), "ncclGroupStart");
  for (int peer = 0; peer < world_size_; ++peer) {
    const auto offset = static_cast<std::size_t>(peer) * part;
    check_nccl(nccl_,
               nccl_.send(static_cast<const std::byte*>(p.send) + offset, count, type, peer, comm_,
                          stream),
               "ncclSend");
    check_nccl(
        nccl_,
        nccl_.recv(static_cast<std::byte*>(p.recv) + offset, count, type, peer, comm_, stream),
        "ncclRecv");
  }
  check_nccl(nccl_, nccl_.group_end(), "ncclGroupEnd");
}

void NcclCollectives::warm_up() {
  const auto bytes = static_cast<std::size_t>(world_size_) * sizeof(float);
  const Buffer send = runtime_.allocate("warm_up_send", bytes);
  const Buffer recv = runtime_.allocate("warm_up_recv", bytes);
  const Stream stream = runtime_.make_stream("warm_up");
  for (const auto kind : {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter,
                          CollectiveKind::kAllReduce, CollectiveKind::kAllToAll}) {
    enqueue(stream, kind,
            {.send = send.data, .recv = recv.data, .count = 1, .dtype = DType::kFp32});
  }
  runtime_.free(send);
  runtime_.free(recv);
}

}  // namespace dcp
