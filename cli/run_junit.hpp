// The JUnit report of `run`, for CI servers.
#pragma once

#include <span>
#include <string>

#include "harness/report.hpp"

namespace dcp {

// One testsuite for each file, one testcase for each strategy and step, named "a2a: step 1 replay
// short". What fell short is a failure, bad input an error. Valid XML 1.0 in UTF-8 whatever the
// texts hold: what XML cannot say becomes U+FFFD.
std::string junit_xml(std::span<const ScenarioReport> reports);

}  // namespace dcp
