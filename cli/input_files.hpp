// The files that a command's PATHs stand for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dcp {

// Files as given; of folders, every file below with the extension, in order of name. Folders named
// `skipped_folder` are passed over unless given themselves. A file that several paths stand for
// comes once. Throws InputError where a folder holds no such file or cannot be read.
std::vector<std::string> input_files(const std::vector<std::string>& paths,
                                     const std::vector<std::string>& extensions,
                                     std::string_view skipped_folder = {});

// Whether the file's path or its name without extension matches the glob; an empty glob matches
// all.
bool matches_filter(const std::string& file, const std::string& glob);

}  // namespace dcp
