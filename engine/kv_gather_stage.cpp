#include "engine/kv_gather_stage.hpp"

#include "strategies/direct_gathers.hpp"

namespace dcp {

namespace {

class KvGatherStage : public Stage {
 public:
  void plan(const StepShape& shape, BufferPlan& plan) const override {
    const KvGatherSpec& gather = shape.kv_gather;
    plan.add("kv_gathered", gather.dtype, {shape.layers, gather.tokens, gather.dim},
             Lifetime::kActivation);
  }

  void enqueue(const StageContext& context, int layer) const override {
    const KvGatherSpec& gather = context.shape.kv_gather;
    const std::size_t gathered_bytes =
        static_cast<std::size_t>(gather.tokens * gather.dim) * size_bytes(gather.dtype);
    const std::size_t chunk_bytes =
        gathered_bytes / static_cast<std::size_t>(context.shape.world_size);
    const auto at = static_cast<std::size_t>(layer);
    this->gather(context, context.inputs.kv_chunk + at * chunk_bytes,
                 context.buffers.at<std::byte>("kv_gathered") + at * gathered_bytes);
  }

 protected:
  virtual void gather(const StageContext& context, const std::byte* chunk,
                      std::byte* gathered) const = 0;
};

class CollectiveKvGatherStage final : public KvGatherStage {
  void gather(const StageContext& context, const std::byte* chunk,
              std::byte* gathered) const override {
    const StepShape& shape = context.shape;
    context.lane.collective(
        CollectiveKind::kAllGather,
        {.send = chunk,
         .recv = gathered,
         .count = shape.kv_gather.tokens / shape.world_size * shape.kv_gather.dim,
         .dtype = shape.kv_gather.dtype});
  }
};

class DirectKvGatherStage final : public KvGatherStage {
 public:
  void plan(const StepShape& shape, BufferPlan& plan) const override {
    KvGatherStage::plan(shape, plan);
    plan_direct_kv_gather(shape, plan);
  }

 private:
  void gather(const StageContext& context, const std::byte* chunk,
              std::byte* gathered) const override {
    enqueue_direct_kv_gather(context.lane, context.shape, context.buffers, chunk, gathered);
  }
};

}  // namespace

std::unique_ptr<Stage> make_collective_kv_gather_stage() {
  return std::make_unique<CollectiveKvGatherStage>();
}

std::unique_ptr<Stage> make_direct_kv_gather_stage() {
  return std::make_unique<DirectKvGatherStage>();
}

}  // namespace dcp
