// One run of several processes under mpirun or srun.
#pragma once

#include <functional>

#include "cli/command_line.hpp"

namespace dcp {

// Calls `program` with the options of this process and ends it with the exit code that it returns.
// Every process of a run finds the same, and the first one reports it; where that one is lost,
// the first that is left does.
[[noreturn]] void run_in_processes(Options options,
                                   const std::function<int(const Options&)>& program);

}  // namespace dcp
