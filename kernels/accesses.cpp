#include "kernels/accesses.hpp"

#include <algorithm>

namespace dcp {

namespace {

void declare_view(std::vector<Access>& out, const ConstHeadRows& view, const ViewShape& shape,
                  Mode mode, std::string_view argument) {
  if (shape.num_tokens == 0 || shape.num_heads == 0 || shape.dim == 0) {
    return declare(out, view.data, 0, mode, argument);
  }
  std::int64_t lowest = 0;  // token 0, head 0, element 0
  std::int64_t highest = 0;
  for (int head = 0; head < shape.num_heads; ++head) {
    const std::int64_t offset = view.strides.offset(0, head);
    lowest = std::min(lowest, offset);
    highest = std::max(highest, offset);
  }
  const auto widen = [&](std::int64_t count, std::int64_t stride) {
    lowest += std::min<std::int64_t>(0, (count - 1) * stride);
    highest += std::max<std::int64_t>(0, (count - 1) * stride);
  };
  widen(shape.num_tokens, view.strides.token);
  widen(shape.dim, view.strides.element);

  const auto element_size = static_cast<std::int64_t>(size_bytes(view.dtype));
  declare(out, static_cast<const char*>(view.data) + lowest * element_size,
          (highest - lowest + 1) * element_size, mode, argument);
}

}  // namespace

void declare(std::vector<Access>& out, const void* data, std::int64_t size_bytes, Mode mode,
             std::string_view argument) {
  out.push_back({data, static_cast<std::size_t>(size_bytes), mode, argument});
}

void declare_indexed(std::vector<Access>& out, const void* data, std::int64_t size_bytes, Mode mode,
                     std::string_view argument) {
  out.push_back({data, static_cast<std::size_t>(size_bytes), mode, argument, true});
}

void touch_none(std::span<Access> accesses) {
  for (Access& access : accesses) access.size_bytes = 0;
}

void declare_read(std::vector<Access>& out, const ConstHeadRows& view, const ViewShape& shape,
                  std::string_view argument) {
  declare_view(out, view, shape, Mode::kRead, argument);
}

void declare_write(std::vector<Access>& out, const HeadRows& view, const ViewShape& shape,
                   std::string_view argument) {
  declare_view(out, view, shape, Mode::kWrite, argument);
}

void declare_batch(std::vector<Access>& out, const BatchMetadata& batch, std::int64_t num_tokens) {
  if (batch.query_start_loc == nullptr) return;
  const std::int64_t requests = num_tokens == 0 ? 0 : batch.num_requests;
  const std::int64_t boundaries = num_tokens == 0 ? 0 : requests + 1;
  const std::int64_t bounds = requests == 0 ? 0 : num_tokens;  // every row is padding
  constexpr std::int64_t kSize = sizeof(std::int32_t);
  declare(out, batch.query_start_loc, boundaries * kSize, Mode::kRead, "batch.query_start_loc");
  declare(out, batch.seq_lens, requests * kSize, Mode::kRead, "batch.seq_lens");
  if (batch.causal_bounds == nullptr) return;
  declare(out, batch.causal_bounds, bounds * kSize, Mode::kRead, "batch.causal_bounds");
}

void declare_empty(std::vector<Access>& out, const EmptyRows& rows, std::int64_t num_tokens) {
  if (rows.empty_ranks == nullptr) return;
  declare(out, rows.empty_ranks, num_tokens * static_cast<std::int64_t>(sizeof(*rows.empty_ranks)),
          Mode::kRead, "empty_ranks");
}

}  // namespace dcp
