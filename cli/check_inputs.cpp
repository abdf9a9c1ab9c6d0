#include "cli/check_inputs.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <regex>

#include "core/error.hpp"

namespace dcp {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kDumpExtension = ".safetensors";

struct RankFile {
  std::string name;  // before ".rank-<r>"
  int rank;
};

std::optional<RankFile> rank_file(const std::string& stem) {
  static const std::regex form("(.+)\\.rank-([0-9]{1,4})");
  std::smatch match;
  if (!std::regex_match(stem, match, form)) return std::nullopt;
  return RankFile{match[1], std::stoi(match[2])};
}

// Folder and name of the step that the file is a part of, if it is no rank's.
std::optional<std::string> step_of_part(const fs::path& path) {
  if (path.extension() != kDumpExtension) return std::nullopt;
  const fs::path stem = path.parent_path() / path.stem();
  if (stem.extension() != ".inputs" && stem.extension() != ".reference") return std::nullopt;
  return fs::path(stem).replace_extension().string();
}

// Puts the files of a dump in rank order.
void sort_ranks(CheckInput& input) {
  std::vector<std::pair<int, std::string>> sorted;
  for (std::size_t i = 0; i < input.files.size(); ++i) {
    sorted.emplace_back(input.ranks[i], input.files[i]);
  }
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    std::tie(input.ranks[i], input.files[i]) = sorted[i];
  }
  input.path = input.files.front();
}

}  // namespace

void CheckInput::require_all_ranks() const {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int want = static_cast<int>(i);
    if (ranks[i] == want) continue;
    const bool is_twice = ranks[i] < want;
    throw InputError({.file = path}, "one file per rank, as its name says: rank " +
                                         std::to_string(is_twice ? ranks[i] : want) +
                                         (is_twice ? " is there twice" : " is missing"));
  }
}

std::vector<CheckInput> check_inputs(const std::vector<std::string>& files) {
  std::vector<CheckInput> inputs;
  std::map<std::string, std::size_t> dumps;  // folder and name -> index in `inputs`
  for (const std::string& file : files) {
    const fs::path path(file);
    CheckInput input{.path = file, .name = path.stem().string(), .files = {file}};
    input.is_dump = path.extension() == kDumpExtension;
    const auto rank = input.is_dump ? rank_file(input.name) : std::nullopt;
    if (!rank) {
      inputs.push_back(std::move(input));
      continue;
    }
    const auto key = (path.parent_path() / rank->name).string();
    const auto [known, is_new] = dumps.emplace(key, inputs.size());
    if (is_new) {
      input.name = rank->name;
      input.per_rank = true;
      input.ranks = {rank->rank};
      inputs.push_back(std::move(input));
      continue;
    }
    inputs[known->second].files.push_back(file);
    inputs[known->second].ranks.push_back(rank->rank);
  }
  std::erase_if(inputs, [&](const CheckInput& input) {
    const auto step = step_of_part(input.path);
    return step && dumps.contains(*step);
  });
  for (CheckInput& input : inputs) {
    if (input.per_rank) sort_ranks(input);
  }
  return inputs;
}

}  // namespace dcp
