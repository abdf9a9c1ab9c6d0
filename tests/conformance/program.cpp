#include "tests/conformance/program.hpp"

#include <array>

namespace dcp::conformance {

namespace {

std::string_view mode_name(CaptureMode mode) {
  switch (mode) {
    case CaptureMode::kGlobal:
      return "global";
    case CaptureMode::kThreadLocal:
      return "thread_local";
    case CaptureMode::kRelaxed:
      return "relaxed";
  }
  return "?";
}

std::string stream_text(int stream) { return " s" + std::to_string(stream); }
std::string event_text(int event) { return " e" + std::to_string(event); }

std::string op_text(const Call& call) {
  std::string text = stream_text(call.stream) + " from ";
  text += call.source < 0 ? "source " + std::to_string(-1 - call.source)
                          : "slot " + std::to_string(call.source);
  if (call.buffer >= 0) text += " through buffer " + std::to_string(call.buffer);
  if (call.verb == Verb::kRound) text += " as " + std::string(name(call.dtype));
  if (call.verb == Verb::kCollective) text += " by " + std::string(name(call.collective));
  return text + " to slot " + std::to_string(call.id);
}

std::string api_text(const Call& call) {
  std::string text = " " + std::string(name(call.api));
  const bool takes_stream =
      call.api == ApiCall::kStreamSynchronize || call.api == ApiCall::kStreamQuery;
  const bool takes_event =
      call.api == ApiCall::kEventSynchronize || call.api == ApiCall::kEventQuery;
  if (takes_stream) text += stream_text(call.stream);
  if (takes_event) text += event_text(call.event);
  return text + (call.thread == CallingThread::kOther ? " from another thread" : "");
}

}  // namespace

std::string_view name(Verb verb) {
  constexpr std::array<std::string_view, kNumVerbs> kNames = {
      "copy",   "round",        "collective",    "record",   "wait", "begin",
      "end",    "is_capturing", "call",          "allocate", "free", "instantiate",
      "launch", "destroy_exec", "destroy_graph", "drain"};
  return kNames[static_cast<std::size_t>(verb)];
}

std::string_view name(ApiCall call) {
  constexpr std::array<std::string_view, 9> kNames = {"stream_synchronize",
                                                      "stream_query",
                                                      "event_synchronize",
                                                      "event_query",
                                                      "device_synchronize",
                                                      "malloc",
                                                      "free",
                                                      "host_malloc",
                                                      "memcpy"};
  return kNames[static_cast<std::size_t>(call)];
}

std::string text(const Call& call) {
  const std::string verb(name(call.verb));
  switch (call.verb) {
    case Verb::kCopy:
    case Verb::kRound:
    case Verb::kCollective:
      return verb + op_text(call);
    case Verb::kRecord:
      return verb + event_text(call.event) + stream_text(call.stream);
    case Verb::kWait:
      return verb + stream_text(call.stream) + event_text(call.event);
    case Verb::kBegin:
      return verb + " " + std::to_string(call.id) + stream_text(call.stream) + " " +
             std::string(mode_name(call.mode));
    case Verb::kEnd:
    case Verb::kIsCapturing:
      return verb + stream_text(call.stream);
    case Verb::kApiCall:
      return verb + api_text(call);
    case Verb::kAllocate:
      return verb + " buffer " + std::to_string(call.id) + stream_text(call.stream);
    case Verb::kLaunch:
      return verb + " " + std::to_string(call.ref) + stream_text(call.stream);
    case Verb::kDrain:
      return verb;
    case Verb::kFree:
    case Verb::kInstantiate:
    case Verb::kDestroyExec:
    case Verb::kDestroyGraph:
      return verb + " " + std::to_string(call.ref);
  }
  return verb;
}

}  // namespace dcp::conformance
