#include "core/input_file.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/error.hpp"
#include "tests/temp_folder.hpp"

namespace dcp {
namespace {

namespace fs = std::filesystem;

class InputFile : public testing::Test {
 protected:
  std::string path(const std::string& file) const { return (folder_ / file).string(); }

  // What is said about the path, after the path.
  static std::string error_of(const std::string& path) {
    try {
      read_input_file(path, 100);
    } catch (const InputError& error) {
      EXPECT_EQ(error.place().file, path);
      return error.message();
    }
    return "";
  }

 private:
  const test::TempFolder temp_;
  const fs::path& folder_ = temp_.path();
};

TEST_F(InputFile, IsReadToItsEndOrOneByteBeyondTheLimit) {
  std::ofstream(path("x")) << "0123456789";
  EXPECT_EQ(read_input_file(path("x"), 10), "0123456789");
  EXPECT_EQ(read_input_file(path("x"), 100), "0123456789");
  EXPECT_EQ(read_input_file(path("x"), 4), "01234");
  fs::create_symlink("x", path("link"));
  EXPECT_EQ(read_input_file(path("link"), 10), "0123456789");
}

TEST_F(InputFile, ThatSaysItsSizeIsZeroIsReadAllTheSame) {
  EXPECT_FALSE(read_input_file("/proc/self/status", 10'000).empty());
}

TEST_F(InputFile, APipeIsRefusedWithoutWaitingForItsWriter) {
  ASSERT_EQ(mkfifo(path("x.json").c_str(), 0600), 0);
  EXPECT_EQ(error_of(path("x.json")), "is not a regular file");
}

TEST_F(InputFile, ASocketADeviceAndAFolderAreRefused) {
  const int number = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = path("socket");
  ASSERT_LT(name.size(), sizeof(address.sun_path));
  std::strcpy(address.sun_path, name.c_str());
  ASSERT_EQ(bind(number, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(error_of(name), "is not a regular file");
  close(number);
  EXPECT_EQ(error_of("/dev/zero"), "is not a regular file");
  EXPECT_EQ(error_of(path("")), "is a folder, not a file");
}

TEST_F(InputFile, ALoopOfLinksIsRefusedAsAndInAPath) {
  fs::create_symlink("loop", path("loop"));
  EXPECT_EQ(error_of(path("loop")), "cannot be read: Too many levels of symbolic links");
  EXPECT_EQ(error_of(path("loop/x")), "cannot be read: Too many levels of symbolic links");
}

TEST_F(InputFile, WhatFailsWhileItIsReadIsRefused) {
  EXPECT_EQ(error_of("/proc/self/mem"), "cannot be read: Input/output error");
  EXPECT_EQ(error_of(path("missing")), "cannot be read: No such file or directory");
}

}  // namespace
}  // namespace dcp
