// The built program, run as a user runs it, with a folder of its own for files.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/temp_folder.hpp"

namespace dcp::test {

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

class ProgramTest : public testing::Test {
 protected:
  std::string path(const std::string& file) const { return (folder_ / file).string(); }

  std::string text_of(const std::string& file) const {
    std::ifstream stream(path(file));
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  void write(const std::string& file, const std::string& text) const {
    std::ofstream(path(file)) << text;
  }

  // `arguments` is shell text.
  Outcome run(const std::string& arguments) const {
    const std::string command =
        "'" DCPSIM_BINARY "' " + arguments + " >'" + path("out") + "' 2>'" + path("err") + "'";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of("out"), text_of("err")};
  }

 private:
  const TempFolder temp_;
  const std::filesystem::path& folder_ = temp_.path();
};

}  // namespace dcp::test
