// A runtime and communicators that write down what a step enqueues, and run none of it.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.hpp"

namespace dcp {

class PlanRecorder final : public Runtime {
 public:
  // Streams are called as the rank's are; `world_size` gives collectives their sizes.
  PlanRecorder(std::map<int, std::string> stream_names, int rank, int world_size,
               std::size_t num_communicators);

  std::vector<PlannedOp>& ops() { return ops_; }
  std::span<Collectives* const> communicators() const { return seen_; }

  Stream make_stream(std::string_view name) override;
  Event make_event() override { return {}; }
  Buffer allocate(std::string_view, std::size_t) override { return refuse(); }
  Buffer allocate_pinned(std::string_view, std::size_t) override { return refuse(); }
  void free(const Buffer&) override {}
  void enqueue(Stream stream, const OpInfo& op, std::span<const std::byte> params) override;
  void copy(Stream stream, void* to, const void* from, std::size_t size_bytes) override;
  void record(Event, Stream) override {}
  void wait(Stream, Event) override {}
  void begin_capture(Stream, CaptureMode) override {}
  Graph end_capture(Stream) override { return {}; }
  bool is_capturing(Stream) const override { return true; }  // a plan is of what is captured
  void call(ApiCall, int, CallingThread) override {}
  GraphExec instantiate(Graph) override { return {}; }
  void launch(GraphExec, Stream) override {}
  void destroy(GraphExec) override {}
  void destroy(Graph) override {}
  const GraphRecord& record_of(Graph) const override { return nothing_; }
  const Ledger& ledger() const override { return ledger_; }
  void read(void*, const void*, std::size_t) override {}
  void write(void*, const void*, std::size_t) override {}

 private:
  class Exchanges final : public Collectives {
   public:
    Exchanges(PlanRecorder& recorder, int rank, int world_size)
        : recorder_(recorder), rank_(rank), world_size_(world_size) {}
    int rank() const override { return rank_; }
    int world_size() const override { return world_size_; }
    void enqueue(Stream stream, CollectiveKind kind, const Message& message) override;

   private:
    PlanRecorder& recorder_;
    int rank_;
    int world_size_;
  };

  static Buffer refuse();
  std::string stream_name(Stream stream) const;

  std::map<int, std::string> stream_names_;
  std::vector<PlannedOp> ops_;
  std::vector<std::unique_ptr<Exchanges>> communicators_;
  std::vector<Collectives*> seen_;
  GraphRecord nothing_;
  Ledger ledger_;
};

}  // namespace dcp
