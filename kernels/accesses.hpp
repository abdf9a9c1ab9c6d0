// How ops say which memory they may touch. A range of no bytes says that the op knows the pointer
// and touches nothing behind it; a strided view is declared as the one range from its lowest to its
// highest element.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/batch_metadata.hpp"
#include "kernels/empty_ranks.hpp"
#include "kernels/head_rows.hpp"
#include "kernels/op.hpp"

namespace dcp {

// The part of a view that an op uses. `dim` is 1 for an lse, whose element stride is not used.
struct ViewShape {
  std::int64_t num_tokens;
  std::int32_t num_heads;
  std::int32_t dim;
};

void declare(std::vector<Access>& out, const void* data, std::int64_t size_bytes, Mode mode,
             std::string_view argument);

// A range of which the op touches what an index names: slots or pages of a cache.
void declare_indexed(std::vector<Access>& out, const void* data, std::int64_t size_bytes, Mode mode,
                     std::string_view argument);

// A view that is read; and one that is written.
void declare_read(std::vector<Access>& out, const ConstHeadRows& view, const ViewShape& shape,
                  std::string_view argument);
void declare_write(std::vector<Access>& out, const HeadRows& view, const ViewShape& shape,
                   std::string_view argument);

// The arrays of `batch` that a question about any of `num_tokens` rows may read.
void declare_batch(std::vector<Access>& out, const BatchMetadata& batch, std::int64_t num_tokens);

// The words that say which of `num_tokens` rows are empty.
void declare_empty(std::vector<Access>& out, const EmptyRows& rows, std::int64_t num_tokens);

// Of an op that has nothing to do.
void touch_none(std::span<Access> accesses);

}  // namespace dcp
