// What every fuzz target demands of a reader: it reads the input or throws InputError, with its
// file and one printable line. Anything else ends the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "core/printable_text.hpp"

// libFuzzer's entry, and plain_driver.cpp's.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace dcp::fuzz {

inline constexpr const char* kFile = "input";

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

template <class Read>
int read_or_refuse(const std::uint8_t* data, std::size_t size, Read&& read) {
  try {
    read(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const InputError& error) {
    const std::string_view what = error.what();
    require(what.starts_with(kFile), "the message does not start with the file");
    require(what.find(": error: ") != std::string_view::npos, "the message has no ': error: '");
    require(what.find('\n') == std::string_view::npos, "the message has more than one line");
    require(!error.message().empty(), "the message is empty");
  }
  return 0;
}

}  // namespace dcp::fuzz
