// Data of kind given: the partials that the scenario writes out, in the layout that attention uses.
#include "core/poison.hpp"
#include "engine/rank_inputs.hpp"

namespace dcp {

namespace {

struct GivenShape {
  std::int64_t rows;
  std::int64_t num_heads;
  std::int64_t dim;  // 1 for an LSE
};

// Value of (row, head, i): the one scalar, or the element of nested lists [rows][heads]([dim]).
double given_value(const GivenTensor& tensor, const GivenShape& shape, std::int64_t row,
                   std::int64_t head, std::int64_t i) {
  if (tensor.shape.empty()) return tensor.values.front();
  return tensor.values[static_cast<std::size_t>((row * shape.num_heads + head) * shape.dim + i)];
}

void require_shape(const GivenTensor& tensor, const GivenShape& shape, bool is_lse) {
  if (tensor.shape.empty()) return;
  std::vector<std::int64_t> wanted = {shape.rows, shape.num_heads};
  if (!is_lse) wanted.push_back(shape.dim);
  if (tensor.shape == wanted) return;
  std::string text = "data.given: shape is [";
  const auto list = [&](const std::vector<std::int64_t>& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      text += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
    }
  };
  list(tensor.shape);
  text += "], the step needs [";
  list(wanted);
  throw InputError(tensor.place, text + "] or one number");
}

std::vector<std::byte> filled(const GivenTensor& tensor, const GivenShape& shape, DType dtype,
                              std::int64_t padded_heads, std::int64_t capacity) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(capacity * padded_heads * shape.dim) *
                               size_bytes(dtype));
  poison(bytes.data(), bytes.size());
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    for (std::int64_t head = 0; head < shape.num_heads; ++head) {
      for (std::int64_t i = 0; i < shape.dim; ++i) {
        const auto index = static_cast<std::size_t>((row * padded_heads + head) * shape.dim + i);
        store_element(bytes.data(), dtype, index,
                      static_cast<float>(given_value(tensor, shape, row, head, i)));
      }
    }
  }
  return bytes;
}

}  // namespace

void RankInputs::load_given(Upload& upload, const BatchLayout& layout) {
  const auto rank = static_cast<std::size_t>(shape_.rank);
  const GivenTensor& out = scenario_.data.given_out.at(rank);
  const GivenTensor& lse = scenario_.data.given_lse.at(rank);
  const GivenShape out_shape{layout.rows, shape_.num_heads, shape_.head_dim};
  const GivenShape lse_shape{layout.rows, shape_.num_heads, 1};
  require_shape(out, out_shape, false);
  require_shape(lse, lse_shape, true);
  const auto out_bytes =
      filled(out, out_shape, shape_.dtype, shape_.padded_num_heads, capacity_.max_num_tokens);
  const auto lse_bytes =
      filled(lse, lse_shape, shape_.lse.dtype, shape_.padded_num_heads, capacity_.max_num_tokens);
  upload.write(buffers_.at("given_out"), out_bytes.data(), out_bytes.size());
  upload.write(buffers_.at("given_lse"), lse_bytes.data(), lse_bytes.size());
}

}  // namespace dcp
