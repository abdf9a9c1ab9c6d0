// The container, and the engine dump in it, as one file for all ranks and as a rank's own.
#include "core/safetensors.hpp"
#include "harness/dump_layers.hpp"
#include "harness/engine_dump.hpp"
#include "tests/fuzz/target.hpp"

namespace {

// The input with the length of a header that ends where "}}" does: damage gets past it.
std::string with_fitting_length(std::string_view bytes) {
  std::string input(bytes);
  const std::size_t close = input.find("}}");
  if (close == std::string::npos || close < 8) return input;
  const std::size_t end = std::min(input.find_first_not_of(' ', close + 2), input.size());
  for (std::size_t i = 0; i < 8; ++i) input[i] = static_cast<char>((end - 8) >> (8 * i));
  return input;
}

void read_dump(std::string_view bytes, bool one_rank) {
  using namespace dcp;
  TensorFile file = parse_safetensors(fuzz::kFile, bytes);
  std::size_t num_bytes = 0;
  for (const StoredTensor& tensor : file.tensors) {
    std::size_t size = size_bytes(tensor.dtype);
    for (const std::int64_t dim : tensor.shape) size *= static_cast<std::size_t>(dim);
    fuzz::require(tensor.bytes.size() == size, "a tensor's bytes are not those of its shape");
    num_bytes += size;
  }
  fuzz::require(num_bytes < bytes.size(), "tensors hold more bytes than the file");
  std::vector<TensorFile> layers = {std::move(file)};
  if (one_rank) layers = split_layers(fuzz::kFile, std::move(layers.front()));
  for (TensorFile& layer : layers) {
    std::vector<EngineDumpPart> parts;
    parts.push_back(engine_dump_part(fuzz::kFile, std::move(layer), one_rank));
    join_engine_dump(std::move(parts), one_rank).masked_partials();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const bool one_rank : {false, true}) {
    dcp::fuzz::read_or_refuse(data, size,
                              [&](std::string_view bytes) { read_dump(bytes, one_rank); });
    dcp::fuzz::read_or_refuse(data, size, [&](std::string_view bytes) {
      read_dump(with_fitting_length(bytes), one_rank);
    });
  }
  return 0;
}
