// A folder that belongs to one test, also where other runs of the same test go on beside it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

namespace dcp::test {

// Exists as long as the object. The path is short, because names of sockets are limited.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::path(testing::TempDir()) / "dcpsim_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category());
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace dcp::test
