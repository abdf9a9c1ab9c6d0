#include "cli/shell_word.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>

namespace dcp {
namespace {

TEST(ShellWord, IsQuotedWhereItNeedsQuotes) {
  EXPECT_EQ(in_shell("a/b-1.yaml"), "a/b-1.yaml");
  EXPECT_EQ(in_shell(""), "''");
  EXPECT_EQ(in_shell("it's $x"), "'it'\\''s $x'");
  EXPECT_EQ(in_shell("\xC3\xA9"), "'\xC3\xA9'");
  EXPECT_EQ(in_shell(std::string(500, '!')), "'" + std::string(500, '!') + "'");
}

TEST(ShellWord, WhatATerminalWouldObeyIsEscaped) {
  EXPECT_EQ(in_shell("a\nb'\\\x1B[1m\xFF"), R"($'a\012b\047\134\033[1m\377')");
}

TEST(ShellWord, IsReadBackByAShell) {
  for (const std::string word : {"a b", "it's", "a\nb\x1B\\'\xFF", "$HOME `x`", "\xC3\xA9 !"}) {
    const std::string command =
        "bash -c \"$(cat <<'END'\nprintf %s " + in_shell(word) + "\nEND\n)\"";
    FILE* pipe = popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    std::array<char, 100> read{};
    const std::size_t size = fread(read.data(), 1, read.size(), pipe);
    pclose(pipe);
    EXPECT_EQ(std::string(read.data(), size), word);
  }
}

}  // namespace
}  // namespace dcp
