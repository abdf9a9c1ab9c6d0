// Runs the programs of tests/data/capture_rules.txt on the real CUDA runtime and prints, for every
// call, the number of the error that it returned; after a successful end also nodes and edges.
// Build: nvcc -std=c++20 -o capture_rules tools/capture_rules.cu
// Usage: capture_rules FILE
#include <cuda_runtime.h>

#include <array>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

__global__ void add_one(int* value) { *value += 1; }

struct Programme {
  std::array<cudaStream_t, 3> streams{};
  std::array<cudaEvent_t, 3> events{};
  std::array<cudaGraph_t, 3> graphs{};
  std::array<cudaGraphExec_t, 3> execs{};
  int* device = nullptr;
  int* spare = nullptr;
  int* pinned = nullptr;
  int pageable = 0;

  Programme() {
    for (auto& stream : streams) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    for (auto& event : events) cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaMalloc(&device, sizeof(int));
    cudaMalloc(&spare, sizeof(int));
    cudaMallocHost(&pinned, sizeof(int));
  }

  cudaStream_t stream(const std::string& name) { return streams.at(name.at(1) - '0'); }
  cudaEvent_t event(const std::string& name) { return events.at(name.at(1) - '0'); }

  std::string end(const std::string& name) {
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(stream(name), &graph);
    std::string text = std::to_string(error);
    if (error != cudaSuccess) return graph == nullptr ? text : text + "!graph";
    graphs.at(name.at(1) - '0') = graph;
    std::size_t nodes = 0, edges = 0;
    cudaGraphGetNodes(graph, nullptr, &nodes);
    cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges);
    return text + "/" + std::to_string(nodes) + "n" + std::to_string(edges) + "e";
  }

  std::string run(const std::vector<std::string>& w) {
    const auto mode = [&] {
      return w[2] == "global"         ? cudaStreamCaptureModeGlobal
             : w[2] == "thread_local" ? cudaStreamCaptureModeThreadLocal
                                      : cudaStreamCaptureModeRelaxed;
    };
    cudaError_t error = cudaErrorNotSupported;
    if (w[0] == "end") return end(w[1]);
    if (w[0] == "begin") error = cudaStreamBeginCapture(stream(w[1]), mode());
    if (w[0] == "op") {
      add_one<<<1, 1, 0, stream(w[1])>>>(device);
      error = cudaGetLastError();
    }
    if (w[0] == "record") error = cudaEventRecord(event(w[1]), stream(w[2]));
    if (w[0] == "wait") error = cudaStreamWaitEvent(stream(w[1]), event(w[2]), 0);
    if (w[0] == "instantiate") {
      const int i = w[1].at(1) - '0';
      error = cudaGraphInstantiate(&execs.at(i), graphs.at(i), 0);
    }
    if (w[0] == "launch") error = cudaGraphLaunch(execs.at(w[1].at(1) - '0'), stream(w[2]));
    if (w[0] == "destroy") error = cudaGraphExecDestroy(execs.at(w[1].at(1) - '0'));
    if (w[0] == "stream_synchronize") error = cudaStreamSynchronize(stream(w[1]));
    if (w[0] == "stream_query") error = cudaStreamQuery(stream(w[1]));
    if (w[0] == "event_synchronize") error = cudaEventSynchronize(event(w[1]));
    if (w[0] == "event_query") error = cudaEventQuery(event(w[1]));
    if (w[0] == "device_synchronize") error = cudaDeviceSynchronize();
    if (w[0] == "malloc") {
      int* fresh = nullptr;
      error = cudaMalloc(&fresh, 1 << 20);
    }
    if (w[0] == "free") error = cudaFree(spare);
    if (w[0] == "host_malloc") {
      int* fresh = nullptr;
      error = cudaMallocHost(&fresh, 1 << 12);
    }
    if (w[0] == "memcpy") error = cudaMemcpy(device, pinned, sizeof(int), cudaMemcpyHostToDevice);
    if (w[0] == "pageable_copy") {
      error = cudaMemcpyAsync(device, &pageable, sizeof(int), cudaMemcpyHostToDevice, stream(w[1]));
    }
    if (w[0] == "pinned_copy") {
      error = cudaMemcpyAsync(device, pinned, sizeof(int), cudaMemcpyHostToDevice, stream(w[1]));
    }
    if (error == cudaErrorNotReady) error = cudaSuccess;  // an answer, not an error
    return std::to_string(error);
  }
};

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::ifstream file(argv[1]);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const auto colon = line.find(':');
    Programme programme;
    std::cout << line.substr(0, colon) << ":";
    std::istringstream calls(line.substr(colon + 1, line.find("=>") - colon - 1));
    for (std::string call; std::getline(calls, call, ';');) {
      auto w = words(call);
      cudaGetLastError();
      std::string result;
      if (w[0] == "other") {
        w.erase(w.begin());
        std::thread([&] { result = programme.run(w); }).join();
      } else {
        result = programme.run(w);
      }
      std::cout << " " << result;
    }
    std::cout << std::endl;
    for (auto stream : programme.streams) {  // leave no capture behind
      cudaStreamCaptureStatus status{};
      cudaStreamIsCapturing(stream, &status);
      cudaGraph_t graph = nullptr;
      if (status != cudaStreamCaptureStatusNone) cudaStreamEndCapture(stream, &graph);
    }
    cudaDeviceSynchronize();
    cudaGetLastError();
  }
  return 0;
}
