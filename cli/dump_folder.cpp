#include "cli/dump_folder.hpp"

#include <filesystem>

#include "core/error.hpp"

namespace dcp {

namespace fs = std::filesystem;

namespace {

bool is_dumped(const fs::path& file) {
  return file.extension() == ".safetensors" && file.filename().string().starts_with("step-");
}

}  // namespace

void prepare_dump_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw InputError({.file = folder}, "cannot create this folder: " + error.message());
  }
  auto entry = fs::recursive_directory_iterator(folder, error);
  while (!error && entry != fs::recursive_directory_iterator()) {
    if (is_dumped(entry->path())) {
      throw InputError({.file = folder}, "holds a dump already: " + entry->path().string() +
                                             "; '--dump' needs a folder without one");
    }
    entry.increment(error);
  }
  if (error) throw InputError({.file = folder}, "cannot be read: " + error.message());
}

}  // namespace dcp
