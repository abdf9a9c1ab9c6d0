// `dcpsim bench`: times kernels on a GPU, beside ceilings of the same run.
#pragma once

namespace dcp {

struct Options;

int bench_command(const Options& options);

}  // namespace dcp
