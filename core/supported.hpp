// What the format has and the engine has not yet, as a list; `require_supported` holds a scenario
// to it.
#pragma once

#include <string_view>
#include <vector>

namespace dcp {

struct UnsupportedSetting {
  std::string_view key;    // dotted
  std::string_view value;  // the value that is not supported, in words where it is a case
};

std::vector<UnsupportedSetting> unsupported_settings();

}  // namespace dcp
