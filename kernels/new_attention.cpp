#include "kernels/new_attention.hpp"

#include <string>

#include "core/error.hpp"
#include "kernels/accesses.hpp"
#include "kernels/row_attention.hpp"

namespace dcp {

namespace {

std::int64_t row_dim(const NewAttention::Params& params) {
  return std::int64_t{2} * params.num_kv_heads * params.head_dim;
}

HeadRows lse_rows(const NewAttention::Params& params) {
  return {.data = params.lse, .strides = token_major(params.num_heads, 1), .dtype = DType::kFp32};
}

}  // namespace

void NewAttention::accesses(const Params& params, std::vector<Access>& out) {
  const ViewShape shape{params.num_tokens, params.num_heads, params.head_dim};
  declare_read(out, params.query, shape, "query");
  declare(out, params.new_kv,
          params.num_new_rows * row_dim(params) *
              static_cast<std::int64_t>(size_bytes(params.query.dtype)),
          Mode::kRead, "new_kv");
  declare(out, params.first_rows,
          params.batch.num_requests * static_cast<std::int64_t>(sizeof(std::int32_t)), Mode::kRead,
          "first_rows");
  declare_batch(out, params.batch, params.num_tokens);
  declare_write(out, params.out, shape, "out");
  declare_write(out, lse_rows(params), {params.num_tokens, params.num_heads, 1}, "lse");
  if (params.empty_row_mode != nullptr) {
    declare(out, params.empty_row_mode, sizeof(std::int32_t), Mode::kRead, "empty_row_mode");
  }
  if (params.num_tokens == 0) touch_none(out);
}

void NewAttention::run(const Params& params) {
  const AttentionRows rows{.query = params.query,
                           .out = params.out,
                           .lse = lse_rows(params),
                           .batch = params.batch,
                           .empty_row_mode = params.empty_row_mode,
                           .num_tokens = params.num_tokens,
                           .num_heads = params.num_heads,
                           .first_head = params.first_head,
                           .heads_per_kv_head = params.heads_per_kv_head,
                           .qk_head_dim = params.head_dim,
                           .v_head_dim = params.head_dim,
                           .num_splits = 1,
                           .value_is_in_key = false,
                           .softmax_scale = params.softmax_scale,
                           .base = params.base};
  const std::int64_t values_at = std::int64_t{params.num_kv_heads} * params.head_dim;
  dispatch_dtype(params.query.dtype, [&]<class T>() {
    attend_rows<T>(rows, [&](std::int32_t request, std::int64_t key, int kv_head) {
      const std::int64_t row = params.first_rows[request] + key;
      if (row >= params.num_new_rows) {
        throw Failure("illegal_address", -1,
                      std::string(kName) + " reads new token " + std::to_string(key) +
                          " of request " + std::to_string(request) + " from row " +
                          std::to_string(row) + " of " + std::to_string(params.num_new_rows));
      }
      const T* vector = static_cast<const T*>(params.new_kv) + row * row_dim(params) +
                        std::int64_t{kv_head} * params.head_dim;
      return KeyValue<T>{vector, vector + values_at};
    });
  });
}

}  // namespace dcp
