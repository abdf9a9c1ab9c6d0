#include "harness/vector_file.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return dcp::fuzz::read_or_refuse(data, size, [](std::string_view text) {
    const dcp::VectorFile file = dcp::parse_vector_file(dcp::fuzz::kFile, text);
    dcp::fuzz::require(!file.cases.empty(), "a file without cases was read");
  });
}
