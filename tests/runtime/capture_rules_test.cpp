// The simulated runtime against what a real GPU answered: every program of
// tests/data/capture_rules.txt, call by call.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "comm/simulated/host_world.hpp"
#include "runtime/memcpy_op.hpp"

namespace dcp {
namespace {

struct Programme {
  std::string name;
  std::vector<std::string> calls;
  std::string results;
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) {
    const auto begin = part.find_first_not_of(' ');
    if (begin != std::string::npos) {
      parts.push_back(part.substr(begin, part.find_last_not_of(' ') - begin + 1));
    }
  }
  return parts;
}

std::vector<Programme> read_programmes() {
  std::ifstream file(DCPSIM_SOURCE_DIR "/tests/data/capture_rules.txt");
  std::vector<Programme> programmes;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const auto colon = line.find(':');
    const auto arrow = line.find("=>");
    programmes.push_back({line.substr(0, colon),
                          split(line.substr(colon + 1, arrow - colon - 1), ';'),
                          line.substr(arrow + 3)});
  }
  return programmes;
}

class Interpreter {
 public:
  Interpreter() : runtime_(scheduler_, 0) {
    for (int i = 0; i < 3; ++i) {
      runtime_.make_stream("s" + std::to_string(i));
      runtime_.make_event();
    }
    from_ = runtime_.allocate_pinned("from", 4);
    to_ = runtime_.allocate("to", 4);
  }

  std::string run(const std::string& call) {
    auto words = split(call, ' ');
    CallingThread thread = CallingThread::kSame;
    if (words[0] == "other") {
      thread = CallingThread::kOther;
      words.erase(words.begin());
    }
    try {
      return dispatch(words, thread);
    } catch (const ApiError& error) {
      return std::to_string(static_cast<int>(error.code()));
    }
  }

 private:
  static int index(const std::string& name) { return name.at(1) - '0'; }

  std::string dispatch(const std::vector<std::string>& w, CallingThread thread) {
    const std::map<std::string, ApiCall> calls = {
        {"stream_synchronize", ApiCall::kStreamSynchronize},
        {"stream_query", ApiCall::kStreamQuery},
        {"event_synchronize", ApiCall::kEventSynchronize},
        {"event_query", ApiCall::kEventQuery},
        {"device_synchronize", ApiCall::kDeviceSynchronize},
        {"malloc", ApiCall::kMalloc},
        {"free", ApiCall::kFree},
        {"host_malloc", ApiCall::kHostMalloc},
        {"memcpy", ApiCall::kMemcpy}};
    const std::string& verb = w[0];
    if (const auto call = calls.find(verb); call != calls.end()) {
      runtime_.call(call->second, w.size() > 1 ? index(w[1]) : -1, thread);
    } else if (verb == "begin") {
      runtime_.begin_capture({index(w[1])}, w[2] == "global"         ? CaptureMode::kGlobal
                                            : w[2] == "thread_local" ? CaptureMode::kThreadLocal
                                                                     : CaptureMode::kRelaxed);
    } else if (verb == "end") {
      const Graph graph = runtime_.end_capture({index(w[1])}, thread);
      graphs_[index(w[1])] = graph;
      const GraphRecord& record = runtime_.record_of(graph);
      return "0/" + std::to_string(record.nodes.size()) + "n" + std::to_string(record.num_edges()) +
             "e";
    } else if (verb == "op" || verb == "pageable_copy" || verb == "pinned_copy") {
      runtime_.copy({index(w[1])}, to_.data, from_.data, 4);
    } else if (verb == "record") {
      runtime_.record({index(w[1])}, {index(w[2])});
    } else if (verb == "wait") {
      runtime_.wait({index(w[1])}, {index(w[2])});
    } else if (verb == "instantiate") {
      execs_[index(w[1])] = runtime_.instantiate(graphs_[index(w[1])]);
    } else if (verb == "launch") {
      runtime_.launch(execs_[index(w[1])], {index(w[2])});
    } else if (verb == "destroy") {
      runtime_.destroy(execs_[index(w[1])]);
    } else {
      ADD_FAILURE() << "unknown call " << verb;
    }
    return "0";
  }

  Scheduler scheduler_{1};
  HostRuntime runtime_;
  Buffer from_;
  Buffer to_;
  std::map<int, Graph> graphs_;
  std::map<int, GraphExec> execs_;
};

TEST(CaptureRules, AreThoseOfTheCudaRuntime) {
  const auto programmes = read_programmes();
  ASSERT_GT(programmes.size(), 70u);
  for (const Programme& programme : programmes) {
    Interpreter interpreter;
    std::string results;
    for (const std::string& call : programme.calls) {
      results += (results.empty() ? "" : " ") + interpreter.run(call);
    }
    EXPECT_EQ(results, programme.results) << programme.name;
  }
}

TEST(CaptureRules, ErrorsCarryCudasNameAndNumber) {
  Scheduler scheduler(1);
  HostRuntime runtime(scheduler, 0);
  const Stream stream = runtime.make_stream("compute");
  runtime.begin_capture(stream, CaptureMode::kThreadLocal);
  try {
    runtime.call(ApiCall::kMalloc, -1, CallingThread::kSame);
    FAIL() << "cudaMalloc is refused during a thread-local capture";
  } catch (const ApiError& error) {
    EXPECT_EQ(std::string(error.what()).substr(0, 53),
              "cudaMalloc: cudaErrorStreamCaptureUnsupported (900): ");
  }
}

}  // namespace
}  // namespace dcp
