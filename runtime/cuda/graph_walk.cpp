#include "runtime/cuda/graph_walk.hpp"

#include <cuda.h>
#include <cudaTypedefs.h>

#include <algorithm>
#include <cstring>

#include "runtime/cuda/cuda_error.hpp"
#include "runtime/memcpy_op.hpp"

namespace dcp {

namespace {

// A function of the driver, found at run time so that the program starts without one.
template <class Function>
Function driver_function(const char* name, unsigned int version) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  check_cuda(cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result),
             "cudaGetDriverEntryPointByVersion");
  return reinterpret_cast<Function>(found);  // null where the driver is older
}

struct Driver {
  PFN_cuGraphKernelNodeGetParams_v12000 kernel_params =
      driver_function<PFN_cuGraphKernelNodeGetParams_v12000>("cuGraphKernelNodeGetParams", 12000);
  PFN_cuFuncGetName_v12030 function_name =
      driver_function<PFN_cuFuncGetName_v12030>("cuFuncGetName", 12030);
  PFN_cuKernelGetName_v12030 kernel_name =
      driver_function<PFN_cuKernelGetName_v12030>("cuKernelGetName", 12030);
  PFN_cuFuncGetParamInfo_v12040 function_argument =
      driver_function<PFN_cuFuncGetParamInfo_v12040>("cuFuncGetParamInfo", 12040);
  PFN_cuKernelGetParamInfo_v12040 kernel_argument =
      driver_function<PFN_cuKernelGetParamInfo_v12040>("cuKernelGetParamInfo", 12040);

  bool is_complete() const {
    return kernel_params != nullptr && function_name != nullptr && kernel_name != nullptr &&
           function_argument != nullptr && kernel_argument != nullptr;
  }
};

// Where the arguments lie: one pointer each, or, as NCCL passes them, all in one buffer.
const std::byte* argument_buffer(void* const* extra) {
  for (; extra != nullptr && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) return static_cast<const std::byte*>(extra[1]);
  }
  return nullptr;
}

void read_kernel(const Driver& driver, cudaGraphNode_t node, DeviceNode& out) {
  CUDA_KERNEL_NODE_PARAMS_v2 params{};
  if (!driver.is_complete() || driver.kernel_params(node, &params) != CUDA_SUCCESS) return;
  const char* name = nullptr;
  const CUresult named = params.func != nullptr ? driver.function_name(&name, params.func)
                                                : driver.kernel_name(&name, params.kern);
  if (named == CUDA_SUCCESS && name != nullptr) out.function = name;

  const std::byte* buffer = argument_buffer(params.extra);
  for (std::size_t i = 0;; ++i) {
    std::size_t offset = 0;
    std::size_t size_bytes = 0;
    const CUresult result = params.func != nullptr
                                ? driver.function_argument(params.func, i, &offset, &size_bytes)
                                : driver.kernel_argument(params.kern, i, &offset, &size_bytes);
    if (result != CUDA_SUCCESS) return;  // CUDA_ERROR_INVALID_VALUE: there is no further one
    const std::byte* bytes = nullptr;
    if (params.kernelParams != nullptr) {
      bytes = static_cast<const std::byte*>(params.kernelParams[i]);
    } else if (buffer != nullptr) {
      bytes = buffer + offset;
    }
    if (bytes == nullptr) return;
    out.arguments.emplace_back(bytes, bytes + size_bytes);
  }
}

void read_memcpy(cudaGraphNode_t node, DeviceNode& out) {
  cudaMemcpy3DParms params{};
  if (cudaGraphMemcpyNodeGetParams(node, &params) != cudaSuccess) {
    cudaGetLastError();
    return;
  }
  out.from = params.srcPtr.ptr;
  out.to = params.dstPtr.ptr;
  out.size_bytes = params.extent.width * params.extent.height * params.extent.depth;
}

void read_memset(cudaGraphNode_t node, DeviceNode& out) {
  cudaMemsetParams params{};
  if (cudaGraphMemsetNodeGetParams(node, &params) != cudaSuccess) {
    cudaGetLastError();
    return;
  }
  out.to = params.dst;
  out.size_bytes = params.elementSize * params.width * params.height;
}

DeviceNode read_node(const Driver& driver, cudaGraphNode_t node) {
  cudaGraphNodeType type{};
  check_cuda(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
  DeviceNode out;
  switch (type) {
    case cudaGraphNodeTypeKernel:
      out.kind = DeviceNodeKind::kKernel;
      read_kernel(driver, node, out);
      return out;
    case cudaGraphNodeTypeMemcpy:
      out.kind = DeviceNodeKind::kMemcpy;
      read_memcpy(node, out);
      return out;
    case cudaGraphNodeTypeMemset:
      out.kind = DeviceNodeKind::kMemset;
      read_memset(node, out);
      return out;
    case cudaGraphNodeTypeHost:
      out.kind = DeviceNodeKind::kHost;
      return out;
    case cudaGraphNodeTypeWaitEvent:
    case cudaGraphNodeTypeEventRecord:
      out.kind = DeviceNodeKind::kEvent;
      return out;
    case cudaGraphNodeTypeEmpty:
      out.kind = DeviceNodeKind::kEmpty;
      return out;
    default:
      return out;
  }
}

bool holds_address(const std::vector<std::byte>& bytes, const void* address) {
  for (std::size_t at = 0; at + sizeof address <= bytes.size(); at += sizeof address) {
    if (std::memcmp(bytes.data() + at, &address, sizeof address) == 0) return true;
  }
  return false;
}

// A launcher may hand its kernel less than the params, in another order: addresses stay what they
// are. What an op declares at an offset from an address is not among them.
bool is_given(const DeviceNode& node, const GraphNode& op) {
  if (op.op == &kOpInfo<MemcpyOp>) {
    MemcpyOp::Params params;
    std::memcpy(&params, op.params.data(), sizeof params);
    return node.from == params.from && node.to == params.to && node.size_bytes == params.size_bytes;
  }
  std::vector<Access> accesses;
  op.op->accesses(op.params.data(), accesses);
  return std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    return access.size_bytes == 0 || !holds_address(op.params, access.data) ||
           std::any_of(node.arguments.begin(), node.arguments.end(),
                       [&](const auto& bytes) { return holds_address(bytes, access.data); });
  });
}

}  // namespace

GraphEdges edges_of(cudaGraph_t graph) {
#if CUDART_VERSION >= 13000
  constexpr auto kGetEdges = cudaGraphGetEdges;
#else
  constexpr auto kGetEdges = cudaGraphGetEdges_v2;
#endif
  std::size_t count = 0;
  check_cuda(kGetEdges(graph, nullptr, nullptr, nullptr, &count), "cudaGraphGetEdges");
  GraphEdges edges{std::vector<cudaGraphNode_t>(count), std::vector<cudaGraphNode_t>(count),
                   std::vector<cudaGraphEdgeData>(count)};
  if (count == 0) return edges;
  check_cuda(kGetEdges(graph, edges.from.data(), edges.to.data(), edges.data.data(), &count),
             "cudaGraphGetEdges");
  return edges;
}

DeviceGraph walk_graph(cudaGraph_t graph, const GraphEdges& edges,
                       const std::unordered_map<cudaGraphNode_t, int>& op_of) {
  std::size_t count = 0;
  check_cuda(cudaGraphGetNodes(graph, nullptr, &count), "cudaGraphGetNodes");
  std::vector<cudaGraphNode_t> nodes(count);
  if (count > 0) check_cuda(cudaGraphGetNodes(graph, nodes.data(), &count), "cudaGraphGetNodes");

  const Driver driver;
  DeviceGraph walked;
  std::unordered_map<cudaGraphNode_t, int> index_of;
  for (const cudaGraphNode_t node : nodes) {
    index_of[node] = static_cast<int>(walked.nodes.size());
    walked.nodes.push_back(read_node(driver, node));
    if (const auto op = op_of.find(node); op != op_of.end()) walked.nodes.back().op = op->second;
  }
  for (std::size_t i = 0; i < edges.from.size(); ++i) {
    const cudaGraphEdgeData& data = edges.data[i];
    walked.edges.push_back({.from = index_of.at(edges.from[i]),
                            .to = index_of.at(edges.to[i]),
                            .is_programmatic = data.type == cudaGraphDependencyTypeProgrammatic,
                            .from_port = data.from_port,
                            .to_port = data.to_port});
  }
  return walked;
}

std::vector<int> ops_without_params(const GraphRecord& record) {
  std::vector<bool> has_node(record.nodes.size(), false);
  std::vector<bool> found(record.nodes.size(), false);
  for (const DeviceNode& node : record.device.nodes) {
    if (node.op < 0) continue;
    const auto op = static_cast<std::size_t>(node.op);
    has_node[op] = true;
    if (is_given(node, record.nodes[op])) found[op] = true;
  }
  std::vector<int> missing;
  for (std::size_t op = 0; op < found.size(); ++op) {
    if (has_node[op] && !found[op]) missing.push_back(static_cast<int>(op));
  }
  return missing;
}

}  // namespace dcp
