// Words that several parts of the format share.
#pragma once

#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "core/kinds.hpp"
#include "core/reader/scalars.hpp"

namespace dcp::reader {

inline constexpr Word<DType> kFloatDTypes[] = {
    {"fp16", DType::kFp16}, {"bf16", DType::kBf16}, {"fp32", DType::kFp32}};

// One name of a closed list of core/kinds.hpp.
std::string read_kind(const YamlNode& node, const std::string& key, std::span<const Kind> kinds);

inline auto kind_of(std::span<const Kind> kinds) {
  return [=](const YamlNode& node, const std::string& key) { return read_kind(node, key, kinds); };
}

// A strategy, or a list of them: not empty, none twice.
std::vector<std::string> read_strategies(const YamlNode& node, const std::string& key);

// A list of integers, none twice.
std::vector<std::int64_t> read_distinct(const YamlNode& node, const std::string& key, Range range);

}  // namespace dcp::reader
