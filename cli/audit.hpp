// `dcpsim audit`: what captured graphs have baked in, and the hazards that the audit proves from
// it.
#pragma once

namespace dcp {

struct Options;

int audit_command(const Options& options);

}  // namespace dcp
