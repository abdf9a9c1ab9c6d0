#include "engine/plan_recorder.hpp"

#include <stdexcept>

namespace dcp {

PlanRecorder::PlanRecorder(std::map<int, std::string> stream_names, int rank, int world_size,
                           std::size_t num_communicators)
    : stream_names_(std::move(stream_names)) {
  for (std::size_t i = 0; i < num_communicators; ++i) {
    communicators_.push_back(std::make_unique<Exchanges>(*this, rank, world_size));
    seen_.push_back(communicators_.back().get());
  }
}

Buffer PlanRecorder::refuse() { throw std::logic_error("a plan allocates nothing"); }

Stream PlanRecorder::make_stream(std::string_view name) {
  constexpr int kFirstOwn = 1 << 20;  // not one of the rank's
  const int id = kFirstOwn + static_cast<int>(stream_names_.size());
  stream_names_[id] = name;
  return {id};
}

std::string PlanRecorder::stream_name(Stream stream) const {
  const auto found = stream_names_.find(stream.id);
  return found == stream_names_.end() ? "" : found->second;
}

void PlanRecorder::enqueue(Stream stream, const OpInfo& op, std::span<const std::byte> params) {
  PlannedOp& planned = ops_.emplace_back();
  planned.name = op.label == nullptr ? op.name : op.label(params.data());
  planned.stream = stream_name(stream);
  planned.params.assign(params.begin(), params.end());
  op.accesses(params.data(), planned.accesses);
  if (op.handle != nullptr) planned.handle = op.handle(params.data());
}

void PlanRecorder::copy(Stream stream, void* to, const void* from, std::size_t size_bytes) {
  ops_.push_back({.name = "memcpy",
                  .stream = stream_name(stream),
                  .params = {},
                  .accesses = {{from, size_bytes, Mode::kRead, "from"},
                               {to, size_bytes, Mode::kWrite, "to"}}});
}

void PlanRecorder::Exchanges::enqueue(Stream stream, CollectiveKind kind, const Message& message) {
  const bool sends_all =
      kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllToAll;
  const bool receives_all = kind == CollectiveKind::kAllGather || kind == CollectiveKind::kAllToAll;
  const std::size_t part = static_cast<std::size_t>(message.count) * size_bytes(message.dtype);
  const std::size_t all = part * static_cast<std::size_t>(world_size_);
  recorder_.ops_.push_back(
      {.name = std::string(name(kind)),
       .stream = recorder_.stream_name(stream),
       .params = {},
       .accesses = {{message.send, sends_all ? all : part, Mode::kRead, "send"},
                    {message.recv, receives_all ? all : part, Mode::kWrite, "recv"}},
       .is_collective = true});
}

}  // namespace dcp
