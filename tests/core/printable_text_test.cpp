#include "core/printable_text.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "core/error.hpp"

namespace dcp {
namespace {

TEST(PrintableText, TextStaysAsItIs) {
  EXPECT_EQ(printable_text("a b  '\\\" \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"),
            "a b  '\\\" \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
}

TEST(PrintableText, ControlCharactersAreEscaped) {
  EXPECT_EQ(printable_text("a\nb\rc\td\x1B[31m\x7F"), "a\\nb\\rc\\td\\x1B[31m\\x7F");
  EXPECT_EQ(printable_text(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable_text("\xC2\x9B"), "\\xC2\\x9B");           // a control of Latin-1
  EXPECT_EQ(printable_text("\xE2\x80\xAE"), "\\xE2\\x80\\xAE");  // turns the rest of the line
}

TEST(PrintableText, BytesThatAreNotUtf8AreEscaped) {
  EXPECT_EQ(printable_text("a\xFFz"), "a\\xFFz");
  EXPECT_EQ(printable_text("\xC3"), "\\xC3");
  EXPECT_EQ(printable_text("\xC0\xAF"), "\\xC0\\xAF");
  EXPECT_EQ(printable_text("\xED\xA0\x80"), "\\xED\\xA0\\x80");
}

TEST(PrintableText, ALongWordIsCutAndTheNextOneIsNot) {
  const std::string word(200, 'x');
  EXPECT_EQ(printable_text(word), word);
  EXPECT_EQ(printable_text("a " + word + "yyy b"), "a " + word + "... b");
  EXPECT_EQ(printable_text(std::string(199, 'x') + "\xC3\xA9"), std::string(199, 'x') + "...");
}

TEST(PrintableText, NumbersKeepTheDigitsThatTellThemApart) {
  EXPECT_EQ(number_text(1.3984375), "1.3984375");
  EXPECT_EQ(number_text(1e-30), "1e-30");
  EXPECT_EQ(number_text(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(number_text(-std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(PrintableText, ErrorsAreOneLineWhateverTheyQuote) {
  const InputError error({"a\nb.yaml", 2, 3}, "unknown '\x1B" + std::string(1000, 'x') + "' here");
  EXPECT_EQ(std::string(error.what()),
            "a\\nb.yaml:2:3: error: unknown '\\x1B" + std::string(198, 'x') + "... here");
  EXPECT_EQ(error.place().file, "a\nb.yaml");
}

}  // namespace
}  // namespace dcp
