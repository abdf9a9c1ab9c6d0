// The folder that `run --dump` writes to.
#pragma once

#include <string>

namespace dcp {

// Creates the folder. InputError where that fails, and where a step was dumped to it or below it
// before: `check` could not tell the files of two runs apart.
void prepare_dump_folder(const std::string& folder);

}  // namespace dcp
