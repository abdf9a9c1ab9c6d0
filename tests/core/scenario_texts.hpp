// Scenario texts and checks that the reader's tests share.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "core/scenario_reader.hpp"

namespace dcp::test {

// The smallest scenario, with `keys` (whole lines) after its model: line 3 is their first.
inline std::string with_keys(const std::string& keys) {
  return "world_size: 2\nmodel: tiny\n" + keys + "batches:\n  short: {seq_lens: [5, 2]}\n";
}

// The smallest scenario with these steps (whole lines): line 6 is their first.
inline std::string with_steps(const std::string& steps) {
  return with_keys("") + "steps:\n" + steps;
}

// what() of the error that the text causes; "" and a test failure where there is none.
inline std::string error_of(const std::string& text, const std::vector<Override>& overrides = {}) {
  try {
    parse_scenario("s.yaml", text, overrides);
  } catch (const InputError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error:\n" << text;
  return "";
}

}  // namespace dcp::test
