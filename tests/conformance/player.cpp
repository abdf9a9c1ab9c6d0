#include "tests/conformance/player.hpp"

#include <functional>

#include "core/error.hpp"
#include "kernels/round_rows.hpp"

namespace dcp::conformance {

namespace {

Answer answer_of(const std::function<std::string()>& call) {
  try {
    return {.code = 0, .text = call()};
  } catch (const ApiError& error) {
    const int code = static_cast<int>(error.code());
    return {.code = code, .text = std::string(name(error.code())) + " " + std::to_string(code)};
  } catch (const StepError& error) {
    return {.code = -1, .text = "refused: " + error.kind()};
  } catch (const Failure& failure) {
    return {.code = -1, .text = "failure: " + failure.kind()};
  } catch (const std::exception& error) {
    return {.code = -1, .text = std::string("exception: ") + error.what()};
  }
}

// "ok 3 nodes, 2 edges: copy; round_rows <- 0; copy <- 0"
std::string graph_text(const GraphRecord& record) {
  std::string text = "ok " + std::to_string(record.nodes.size()) + " nodes, " +
                     std::to_string(record.num_edges()) + " edges:";
  for (const GraphNode& node : record.nodes) {
    text.append(" ").append(node.op->name);
    if (!node.dependencies.empty()) text += " <-";
    for (const int dependency : node.dependencies) text += " " + std::to_string(dependency);
    text += ";";
  }
  return text;
}

}  // namespace

Player::Player(std::unique_ptr<World> world) : world_(std::move(world)) {
  world_->each_rank([&](Rank& rank) {
    runtime_ = &rank.runtime;
    for (int i = 0; i < kNumStreams; ++i) {
      streams_.push_back(runtime_->make_stream("s" + std::to_string(i)));
    }
    for (int i = 0; i < kNumEvents; ++i) events_.push_back(runtime_->make_event());
    for (int i = 0; i < kNumSources; ++i) {
      sources_.push_back(runtime_->allocate_pinned("source " + std::to_string(i), kSlotBytes));
    }
    slots_ = runtime_->allocate("slots", kMaxCalls * kSlotBytes);
    const std::vector<std::byte> zeros(slots_.size_bytes);
    runtime_->write(slots_.data, zeros.data(), zeros.size());
  });
  set_sources();
}

// Pinned memory is host memory: the program writes it itself, while nothing is pending.
void Player::set_sources() {
  for (int source = 0; source < kNumSources; ++source) {
    auto* values = reinterpret_cast<float*>(sources_[source].data);
    for (int i = 0; i < kElements; ++i) {
      values[i] = 1.0009765625f * static_cast<float>(1 + i + 100 * source + 1000 * num_drains_);
    }
  }
}

Answer Player::play(const Call& call) {
  if (call.verb == Verb::kDrain) {
    return answer_of([&] {
      world_->drain();
      ++num_drains_;
      set_sources();
      return std::string("ok");
    });
  }
  Answer answer;
  world_->each_rank([&](Rank& rank) { answer = answer_of([&] { return dispatch(rank, call); }); });
  return answer;
}

std::string Player::dispatch(Rank& rank, const Call& call) {
  const Stream stream = streams_.at(call.stream);
  const Event event = events_.at(call.event);
  switch (call.verb) {
    case Verb::kCopy:
    case Verb::kRound:
    case Verb::kCollective:
      enqueue_op(rank, call);
      break;
    case Verb::kRecord:
      runtime_->record(event, stream);
      break;
    case Verb::kWait:
      runtime_->wait(stream, event);
      break;
    case Verb::kBegin:
      runtime_->begin_capture(stream, call.mode);
      begin_of_[call.stream] = call.id;
      break;
    case Verb::kEnd: {
      const Graph graph = runtime_->end_capture(stream);
      graphs_[begin_of_.at(call.stream)] = graph;
      return graph_text(runtime_->record_of(graph));
    }
    case Verb::kIsCapturing:
      return runtime_->is_capturing(stream) ? "yes" : "no";
    case Verb::kApiCall: {
      const bool of_event =
          call.api == ApiCall::kEventSynchronize || call.api == ApiCall::kEventQuery;
      runtime_->call(call.api, of_event ? event.id : stream.id, call.thread);
      break;
    }
    case Verb::kAllocate:
      buffers_[call.id] = runtime_->allocate("buffer " + std::to_string(call.id), kSlotBytes);
      break;
    case Verb::kFree:
      runtime_->free(buffers_.at(call.ref));
      break;
    case Verb::kInstantiate:
      execs_[call.ref] = runtime_->instantiate(graphs_.at(call.ref));
      break;
    case Verb::kLaunch:
      runtime_->launch(execs_.at(call.ref), stream);
      break;
    case Verb::kDestroyExec:
      runtime_->destroy(execs_.at(call.ref));
      break;
    case Verb::kDestroyGraph:
      runtime_->destroy(graphs_.at(call.ref));
      break;
    case Verb::kDrain:
      break;
  }
  return "ok";
}

void Player::enqueue_op(Rank& rank, const Call& call) {
  const Stream stream = streams_.at(call.stream);
  const std::byte* from = call.source < 0 ? sources_.at(-1 - call.source).data : slot(call.source);
  std::byte* to = call.buffer < 0 ? slot(call.id) : buffers_.at(call.buffer).data;
  if (call.verb == Verb::kCopy) {
    runtime_->copy(stream, to, from, kSlotBytes);
  } else if (call.verb == Verb::kRound) {
    enqueue<RoundRows>(*runtime_, stream,
                       {.in = reinterpret_cast<const float*>(from),
                        .out = to,
                        .num_elements = kElements,
                        .dtype = call.dtype});
  } else {
    rank.communicators[call.communicator]->enqueue(
        stream, call.collective,
        {.send = from, .recv = to, .count = kElements, .dtype = DType::kFp32});
  }
  if (call.buffer < 0) return;
  const std::size_t written =
      call.verb == Verb::kRound ? kElements * size_bytes(call.dtype) : kSlotBytes;
  runtime_->copy(stream, slot(call.id), to, written);
}

std::vector<std::byte> Player::finish() {
  world_->each_rank([&](Rank&) {
    for (int round = 0; round < 2; ++round) {  // streams that joined leave with their origin
      for (const Stream stream : streams_) {
        answer_of([&] {
          if (runtime_->is_capturing(stream)) runtime_->end_capture(stream);
          return std::string();
        });
      }
    }
  });
  std::vector<std::byte> bytes(slots_.size_bytes);
  answer_of([&] {
    world_->drain();
    runtime_->read(bytes.data(), slots_.data, bytes.size());
    return std::string();
  });
  return bytes;
}

}  // namespace dcp::conformance
