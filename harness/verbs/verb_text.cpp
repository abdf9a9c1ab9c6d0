// Verbs in words, for reports.
#include <array>

#include "harness/verbs/verbs.hpp"

namespace dcp {

std::string graph_name(std::int64_t rows) { return "g" + std::to_string(rows); }

std::string batch_of(const Verb& verb) {
  if (const auto* replay = std::get_if<verb::Replay>(&verb)) return replay->batch;
  if (const auto* eager = std::get_if<verb::Eager>(&verb)) return eager->batch;
  if (const auto* capture = std::get_if<verb::Capture>(&verb)) return capture->batch;
  return "";
}

bool changes_memory(const Verb& verb) {
  return std::holds_alternative<verb::Free>(verb) || std::holds_alternative<verb::Rebind>(verb) ||
         std::holds_alternative<verb::Remap>(verb) || std::holds_alternative<verb::Grow>(verb);
}

bool enqueues_step(const Verb& verb) {
  return std::holds_alternative<verb::Capture>(verb) ||
         std::holds_alternative<verb::Replay>(verb) || std::holds_alternative<verb::Eager>(verb) ||
         std::holds_alternative<verb::Together>(verb);
}

namespace {

std::string buffer_text(const BufferRef& ref) {
  return ref.buffer + (ref.graph ? " of " + *ref.graph : "") +
         (ref.row ? " row " + std::to_string(*ref.row) : "");
}

std::string asynchronous(const std::string& stream, bool wait) {
  return (stream.empty() ? "" : " on " + stream) + (wait ? "" : ", not waited for");
}

struct VerbText {
  std::string operator()(const verb::Capture& v) const {
    if (v.all) return "all sizes";
    if (!v.graph.empty()) return v.graph;
    if (v.rows) return graph_name(*v.rows);
    return v.batch.empty() ? list_text(v.sizes) : v.batch;
  }
  std::string operator()(const verb::Replay& v) const {
    const std::string times = v.times == 1 ? "" : " x" + std::to_string(v.times);
    return v.batch + times + (v.graph.empty() ? "" : " in " + v.graph) +
           asynchronous(v.stream, v.wait);
  }
  std::string operator()(const verb::Eager& v) const {
    return v.batch + asynchronous(v.stream, v.wait);
  }
  std::string operator()(const verb::Together& v) const {
    std::string text;
    for (const Step& step : v.steps) {
      text += (text.empty() ? "" : "; ") + ("rank " + std::to_string(*step.rank)) + ": " +
              step.verb_name + " " + text_of(step.verb);
    }
    return text;
  }
  std::string operator()(const verb::Poison& v) const { return buffer_text(v.buffer); }
  std::string operator()(const verb::Canary& v) const { return buffer_text(v.buffer); }
  std::string operator()(const verb::CheckCanary& v) const { return buffer_text(v.buffer); }
  std::string operator()(const verb::Free& v) const { return buffer_text(v.buffer); }
  std::string operator()(const verb::Rebind& v) const { return buffer_text(v.buffer); }
  std::string operator()(const verb::Remap& v) const { return buffer_text(v.buffer); }
  std::string operator()(const verb::Allocate& v) const {
    return v.name + ", " + std::to_string(v.size_bytes) + " bytes in " + v.where;
  }
  std::string operator()(const verb::Lock&) const { return "workspace"; }
  std::string operator()(const verb::Grow& v) const {
    return "workspace to " + std::to_string(v.rows) + " rows";
  }
  std::string operator()(const verb::Sync&) const { return "all"; }
  std::string operator()(const verb::Set& v) const { return v.key + " to " + v.value; }
  std::string operator()(const verb::Stall& v) const { return v.at + " until " + v.until; }
  std::string operator()(const verb::Skip& v) const { return v.op; }
  std::string operator()(const verb::Throw& v) const { return "at " + v.at; }
  std::string operator()(const verb::DuringCapture& v) const {
    return v.call + (v.other_thread ? " of another thread" : "");
  }
  std::string operator()(const verb::Fork& v) const { return v.stream; }
  std::string operator()(const verb::Join& v) const { return v.stream; }
  std::string operator()(const verb::Place& v) const {
    return "ubatch " + std::to_string(v.ubatch) + " on " + v.stream;
  }
  std::string operator()(const verb::StubAttention& v) const {
    constexpr std::array kModes = {"exact", "poison_empty", "plus_inf", "nan_pad", "untouched"};
    return kModes[static_cast<std::size_t>(v.mode)];
  }
  std::string operator()(const verb::Destroy& v) const {
    return v.graph.empty() ? "communicators" : v.graph;
  }
};

}  // namespace

std::string text_of(const Verb& verb) { return std::visit(VerbText{}, verb); }

}  // namespace dcp
