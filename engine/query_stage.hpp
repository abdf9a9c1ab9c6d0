// Where attention gets its queries from: an all-gather of every rank's heads, stores to every
// rank's buffer, or a replicated query that every rank already holds. The stage also says where the
// previous layer leaves its part.
#pragma once

#include <memory>

#include "core/scenario.hpp"
#include "engine/stage.hpp"

namespace dcp {

class QueryStage : public Stage {
 public:
  // The queries of all H heads that attention reads in this layer, [T, H, Dq].
  virtual ConstHeadRows gathered(const StepShape& shape, const BufferSet& buffers,
                                 const StepInputs& inputs, int layer) const = 0;

  // Where the previous layer's out_proj writes this layer's query, and how many heads it writes:
  // h of this rank or, where nothing is gathered, all H.
  virtual HeadRows local(const StepShape& shape, const BufferSet& buffers, int layer) const = 0;
  virtual int num_local_heads(const StepShape& shape) const = 0;

  // Heads of layer 0 that the input holds.
  virtual int num_input_heads(const StepShape& shape) const = 0;

  // Whether all layers gather into one buffer, which later holds the last layer's query only.
  virtual bool reuses_buffer(const StepShape& /*shape*/) const { return false; }

  // What the rank itself has of a layer's query: its h heads or, where layer 0 or all layers are
  // replicated, all H.
  ConstHeadRows own(const StepShape& shape, const BufferSet& buffers, const StepInputs& inputs,
                    int layer) const;
};

// all_gather: ranks start with h heads. direct: the same, but one rank alone has nothing to gather,
// and steps of more rows than the exchange holds are gathered as by all_gather. replicate: they
// start with all H heads of layer 0, read in place; a strategy that keeps all heads lets every rank
// make the whole next query, after any other the next query is gathered, as the all-reduce of an
// output projection would.
std::unique_ptr<QueryStage> make_query_stage(QueryMode mode, bool keeps_all_heads, int world_size);

}  // namespace dcp
