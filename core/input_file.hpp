// The one way in which files that a user names are read.
#pragma once

#include <cstddef>
#include <string>

namespace dcp {

// The bytes of a regular file, at most one more than `max_size_bytes`, so that the caller can say
// what is too long. Throws InputError for everything else that a path may name: a pipe, a socket, a
// device, a folder, a loop of links. Never waits for a writer.
std::string read_input_file(const std::string& path, std::size_t max_size_bytes);

}  // namespace dcp
