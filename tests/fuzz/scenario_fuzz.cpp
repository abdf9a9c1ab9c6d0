#include "core/scenario_reader.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return dcp::fuzz::read_or_refuse(data, size, [](std::string_view text) {
    dcp::require_supported(dcp::parse_scenario(dcp::fuzz::kFile, std::string(text)));
  });
}
