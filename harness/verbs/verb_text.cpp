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
  std::string operator()(const verb::StubAttention& v) const {
    constexpr std::array kModes = {"exact", "poison_empty", "plus_inf", "nan_pad", "untouched"};
    return kModes[static_cast<std::size_t>(v.mode)];
  }
  std::string operator()(const verb::Destroy& v) const {
    return v.graph.empty() ? "communicators" : v.graph;
  }
  template <class Other>
  std::string operator()(const Other&) const {
    return "";
  }
};

}  // namespace

std::string text_of(const Verb& verb) { return std::visit(VerbText{}, verb); }

}  // namespace dcp
