// `dcpsim explain`: the plan of a scenario in words and text pictures, without running it.
#pragma once

namespace dcp {

struct Options;

int explain_command(const Options& options);

}  // namespace dcp
