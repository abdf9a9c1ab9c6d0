#include "cli/input_files.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>

#include "core/error.hpp"

namespace dcp {

namespace fs = std::filesystem;

namespace {

bool has_extension(const fs::path& path, const std::vector<std::string>& extensions) {
  return std::find(extensions.begin(), extensions.end(), path.extension()) != extensions.end();
}

std::vector<std::string> files_below(const std::string& folder,
                                     const std::vector<std::string>& extensions,
                                     std::string_view skipped_folder) {
  std::vector<std::string> files;
  for (auto entry = fs::recursive_directory_iterator(folder);
       entry != fs::recursive_directory_iterator(); ++entry) {
    if (entry->is_directory() && entry->path().filename() == skipped_folder) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file() && has_extension(entry->path(), extensions)) {
      files.push_back(entry->path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::vector<std::string> input_files(const std::vector<std::string>& paths,
                                     const std::vector<std::string>& extensions,
                                     std::string_view skipped_folder) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (!fs::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    const auto below = files_below(path, extensions, skipped_folder);
    if (below.empty()) throw InputError({.file = path}, "no " + extensions.front() + " file below");
    files.insert(files.end(), below.begin(), below.end());
  }
  return files;
}

bool matches_filter(const std::string& file, const std::string& glob) {
  if (glob.empty()) return true;
  return fnmatch(glob.c_str(), file.c_str(), 0) == 0 ||
         fnmatch(glob.c_str(), fs::path(file).stem().c_str(), 0) == 0;
}

}  // namespace dcp
