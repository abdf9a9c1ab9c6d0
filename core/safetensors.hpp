// The safetensors format of tensors in files: 8 bytes with the length of the header
// (little-endian), the header in JSON, then the tensors' bytes, little-endian and row-major, end to
// end. The header maps each name to {"dtype", "shape", "data_offsets": [begin, end]} and
// "__metadata__" to strings. https://huggingface.co/docs/safetensors
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"

namespace dcp {

enum class StoredDType : std::uint8_t { kF64, kF32, kF16, kBf16, kI64, kI32, kU8 };

std::size_t size_bytes(StoredDType dtype);
std::string_view name(StoredDType dtype);  // "F64", "BF16", ...

// fp8_e4m3 is stored as its bytes: kU8.
StoredDType stored_dtype(DType dtype);

template <class T>
inline constexpr StoredDType kStoredDTypeOf = StoredDType::kU8;
template <>
inline constexpr StoredDType kStoredDTypeOf<double> = StoredDType::kF64;
template <>
inline constexpr StoredDType kStoredDTypeOf<float> = StoredDType::kF32;
template <>
inline constexpr StoredDType kStoredDTypeOf<std::int64_t> = StoredDType::kI64;
template <>
inline constexpr StoredDType kStoredDTypeOf<std::int32_t> = StoredDType::kI32;

struct StoredTensor {
  std::string name;
  StoredDType dtype = StoredDType::kU8;
  std::vector<std::int64_t> shape = {};  // empty: one element
  std::vector<std::byte> bytes = {};     // product of shape * size_bytes(dtype)
};

template <class T>
StoredTensor make_tensor(std::string name, std::vector<std::int64_t> shape,
                         std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {std::move(name), kStoredDTypeOf<T>, std::move(shape), {bytes.begin(), bytes.end()}};
}

// The tensor's elements; its dtype must be T's.
template <class T>
std::vector<T> values_of(const StoredTensor& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.bytes.data(), values.size() * sizeof(T));
  return values;
}

struct TensorFile {
  std::map<std::string, std::string> metadata;
  std::vector<StoredTensor> tensors;  // read: in the order of their bytes

  const StoredTensor* find(std::string_view tensor) const;  // null: not there
};

// Writes a new file and gives it the name `path` once it is complete: whoever opens `path` sees the
// old file or the whole new one. Names must differ, and texts be UTF-8. Throws InputError where the
// file cannot be written.
void write_safetensors(const std::string& path, const TensorFile& file);

// Throws InputError, with the tensor's name where there is one, for whatever the format forbids: a
// header beyond the file or above 100 MB, other JSON, names or fields twice, unknown fields or
// dtypes, shapes that do not fit the offsets, bytes that overlap, lie outside or belong to nobody.
// Files above `max_size_bytes` are refused too.
TensorFile read_safetensors(const std::string& path,
                            std::size_t max_size_bytes = std::numeric_limits<std::int64_t>::max());

// The same for bytes that are in memory; `path` is only for messages.
TensorFile parse_safetensors(const std::string& path, std::string_view bytes);

}  // namespace dcp
