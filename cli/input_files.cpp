#include "cli/input_files.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/error.hpp"

namespace dcp {

namespace fs = std::filesystem;

namespace {

bool has_extension(const fs::path& path, const std::vector<std::string>& extensions) {
  return std::find(extensions.begin(), extensions.end(), path.extension()) != extensions.end();
}

// What cannot be looked at is no folder: whoever reads it says why it cannot be read.
bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// Also what is no regular file, if it has the extension: its reader refuses it, so that nothing in
// a folder is passed over in silence.
std::vector<std::string> files_below(const std::string& folder,
                                     const std::vector<std::string>& extensions,
                                     std::string_view skipped_folder) {
  std::vector<std::string> files;
  std::error_code error;
  std::string last = folder;  // what is being opened: the folder itself or one below it
  auto entry = fs::recursive_directory_iterator(folder, error);
  while (!error && entry != fs::recursive_directory_iterator()) {
    const fs::path& path = entry->path();
    last = path.string();
    if (is_folder(path)) {
      if (path.filename() == skipped_folder) entry.disable_recursion_pending();
    } else if (has_extension(path, extensions)) {
      files.push_back(path.string());
    }
    entry.increment(error);
  }
  if (error) throw InputError({.file = last}, "cannot be read: " + error.message());
  std::sort(files.begin(), files.end());
  return files;
}

// The same for all paths of a file, through links too.
std::string identity(const std::string& path) {
  std::error_code error;
  const fs::path canonical = fs::canonical(path, error);
  return error ? path : canonical.string();
}

}  // namespace

std::vector<std::string> input_files(const std::vector<std::string>& paths,
                                     const std::vector<std::string>& extensions,
                                     std::string_view skipped_folder) {
  std::vector<std::string> files;
  std::set<std::string> identities;
  const auto add = [&](const std::string& file) {
    if (identities.insert(identity(file)).second) files.push_back(file);
  };
  for (const std::string& path : paths) {
    if (!is_folder(path)) {
      add(path);
      continue;
    }
    const auto below = files_below(path, extensions, skipped_folder);
    if (below.empty()) {
      std::string words;
      for (const std::string& each : extensions) words += (words.empty() ? "" : " or ") + each;
      throw InputError({.file = path}, "no " + words + " file below");
    }
    std::for_each(below.begin(), below.end(), add);
  }
  return files;
}

bool matches_filter(const std::string& file, const std::string& glob) {
  if (glob.empty()) return true;
  return fnmatch(glob.c_str(), file.c_str(), 0) == 0 ||
         fnmatch(glob.c_str(), fs::path(file).stem().c_str(), 0) == 0;
}

}  // namespace dcp
