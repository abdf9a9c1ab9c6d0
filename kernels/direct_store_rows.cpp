#include "kernels/direct_store_rows.hpp"

#include "kernels/accesses.hpp"

namespace dcp {

void DirectStoreRows::accesses(const Params& params, std::vector<Access>& out) {
  declare(out, params.rows, params.num_rows * params.row_bytes, Mode::kRead, "rows");
  declare(out, params.state, sizeof(ExchangeState), Mode::kRead, "state");
  const std::int64_t span = (params.num_rows - 1) * params.row_stride + params.row_bytes;
  for (int peer = 0; peer < params.world_size; ++peer) {
    for (std::uint32_t slot = 0; slot < params.num_slots; ++slot) {
      declare(
          out,
          static_cast<char*>(params.target.at[peer]) + slot * params.slot_bytes + params.first_byte,
          span, Mode::kWrite, "target");
    }
  }
  if (params.num_rows == 0) touch_none(out);
}

void DirectStoreRows::run(const Params& params) {
  const std::int64_t first =
      slot_of(params.state->epoch, params.num_slots) * params.slot_bytes + params.first_byte;
  const bool is_dense = params.row_stride == params.row_bytes;
  const std::int64_t num_stores = is_dense && params.num_rows > 0 ? 1 : params.num_rows;
  const std::int64_t store_bytes = is_dense ? params.num_rows * params.row_bytes : params.row_bytes;
  for (int peer = 0; peer < params.world_size; ++peer) {
    char* const to = static_cast<char*>(params.target.at[peer]) + first;
    for (std::int64_t i = 0; i < num_stores; ++i) {
      store_at(params.stores, {params.rank, peer}, to + i * params.row_stride,
               static_cast<const char*>(params.rows) + i * params.row_bytes,
               static_cast<std::size_t>(store_bytes));
    }
  }
}

}  // namespace dcp
