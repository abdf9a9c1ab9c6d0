#include "core/safetensors.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace dcp {

namespace {

struct DTypeInfo {
  StoredDType dtype;
  std::string_view name;
  std::size_t size_bytes;
};

constexpr std::array kDTypes = {
    DTypeInfo{StoredDType::kF64, "F64", 8}, DTypeInfo{StoredDType::kF32, "F32", 4},
    DTypeInfo{StoredDType::kF16, "F16", 2}, DTypeInfo{StoredDType::kBf16, "BF16", 2},
    DTypeInfo{StoredDType::kI64, "I64", 8}, DTypeInfo{StoredDType::kI32, "I32", 4},
    DTypeInfo{StoredDType::kU8, "U8", 1},
};

const DTypeInfo& info_of(StoredDType dtype) { return kDTypes[static_cast<std::size_t>(dtype)]; }

// Larger elements first, so that each tensor is aligned to its own elements; then by name.
std::vector<const StoredTensor*> in_file_order(const TensorFile& file) {
  std::vector<const StoredTensor*> order;
  for (const StoredTensor& tensor : file.tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const StoredTensor* a, const StoredTensor* b) {
    const auto size_a = size_bytes(a->dtype);
    const auto size_b = size_bytes(b->dtype);
    return size_a != size_b ? size_a > size_b : a->name < b->name;
  });
  return order;
}

std::string header_of(const TensorFile& file, const std::vector<const StoredTensor*>& order) {
  nlohmann::json header = nlohmann::json::object();
  if (!file.metadata.empty()) header["__metadata__"] = file.metadata;
  std::size_t begin = 0;
  for (const StoredTensor* tensor : order) {
    assert(!header.contains(tensor->name));
    const std::size_t end = begin + tensor->bytes.size();
    header[tensor->name] = {
        {"dtype", name(tensor->dtype)}, {"shape", tensor->shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the tensors begin at a multiple of 8
  return text;
}

void write_bytes(const std::string& path, const TensorFile& file) {
  const auto order = in_file_order(file);
  const std::string header = header_of(file, order);
  std::array<char, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<char>(static_cast<std::uint64_t>(header.size()) >> (8 * i));
  }
  std::ofstream stream(path, std::ios::binary);
  stream.write(length.data(), length.size());
  stream << header;
  for (const StoredTensor* tensor : order) {
    stream.write(reinterpret_cast<const char*>(tensor->bytes.data()),
                 static_cast<std::streamsize>(tensor->bytes.size()));
  }
  stream.close();
  if (!stream) throw InputError({.file = path}, "cannot write this file");
}

}  // namespace

std::size_t size_bytes(StoredDType dtype) { return info_of(dtype).size_bytes; }

std::string_view name(StoredDType dtype) { return info_of(dtype).name; }

StoredDType stored_dtype(DType dtype) {
  switch (dtype) {
    case DType::kFp32:
      return StoredDType::kF32;
    case DType::kFp16:
      return StoredDType::kF16;
    case DType::kBf16:
      return StoredDType::kBf16;
    case DType::kFp8E4m3:
      break;
  }
  return StoredDType::kU8;
}

const StoredTensor* TensorFile::find(std::string_view tensor) const {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(),
                   [&](const StoredTensor& candidate) { return candidate.name == tensor; });
  return found == tensors.end() ? nullptr : &*found;
}

void write_safetensors(const std::string& path, const TensorFile& file) {
  const std::string unfinished = path + ".part." + std::to_string(getpid());
  std::error_code error;
  try {
    write_bytes(unfinished, file);
    std::filesystem::rename(unfinished, path, error);
    if (error) throw InputError({.file = path}, "cannot write this file: " + error.message());
  } catch (...) {
    std::filesystem::remove(unfinished, error);
    throw;
  }
}

}  // namespace dcp
