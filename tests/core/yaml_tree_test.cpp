#include "core/yaml_tree.hpp"

#include <gtest/gtest.h>

#include "core/yaml_text.hpp"

namespace dcp {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse_yaml("f", text);
  } catch (const InputError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error:\n" << text;
  return "";
}

TEST(YamlTree, KeepsKindsTextQuotesOrderAndPlaces) {
  const YamlNode root = parse_yaml("f", "b: [1, 'two', ~]\na:\n  c: null\n");
  ASSERT_EQ(root.kind, YamlNode::Kind::kMap);
  ASSERT_EQ(root.entries.size(), 2u);
  EXPECT_EQ(root.entries[0].key.text, "b");
  const YamlNode& list = root.entries[0].value;
  ASSERT_EQ(list.kind, YamlNode::Kind::kList);
  ASSERT_EQ(list.items.size(), 3u);
  EXPECT_TRUE(list.items[0].is_plain());
  EXPECT_TRUE(list.items[1].quoted);
  EXPECT_EQ(list.items[1].text, "two");
  EXPECT_EQ(list.items[2].kind, YamlNode::Kind::kNull);
  EXPECT_EQ(list.items[1].place.text(), "f:1:8");
  ASSERT_NE(root.find("a"), nullptr);
  EXPECT_EQ(root.find("a")->entries[0].key.place.text(), "f:3:3");
  EXPECT_EQ(root.find("a")->entries[0].value.kind, YamlNode::Kind::kNull);
  EXPECT_EQ(root.find("c"), nullptr);
}

TEST(YamlTree, CountsColumnsInCharacters) {
  const YamlNode root = parse_yaml("f", "'\xC3\xA9\xE2\x82\xAC': x\r\nb: 1");
  EXPECT_EQ(root.entries[0].value.place.text(), "f:1:7");
  EXPECT_EQ(root.entries[1].value.place.text(), "f:2:4");
}

TEST(YamlTree, SkipsAByteOrderMarkAtTheStart) {
  EXPECT_EQ(parse_yaml("f",
                       "\xEF\xBB\xBF"
                       "a: 1")
                .entries[0]
                .key.place.text(),
            "f:1:1");
  EXPECT_EQ(error_of("a: \xEF\xBB\xBF"
                     "1"),
            "f:1:4: error: a byte order mark inside the text");
}

TEST(YamlTree, RefusesDuplicateKeysQuotedOrNot) {
  EXPECT_EQ(error_of("a: 1\n\"a\": 2"), "f:2:1: error: duplicate key 'a' (first on line 1)");
  EXPECT_EQ(error_of("x: {a: 1, a: 1}"), "f:1:11: error: duplicate key 'a' (first on line 1)");
}

TEST(YamlTree, RefusesEmptyItemsAndValues) {
  EXPECT_EQ(error_of("a: [9,,3]"), "f:1:7: error: empty list item");
  EXPECT_EQ(error_of("a:\n- 1\n-\n"), "f:4:1: error: empty list item");
  EXPECT_EQ(error_of("a: {b: , c: 1}"), "f:1:5: error: 'b' has no value");
  EXPECT_EQ(error_of("a: {b}"), "f:1:5: error: 'b' has no value");
  EXPECT_EQ(error_of("a:\nb: 1"), "f:1:1: error: 'a' has no value");
  EXPECT_EQ(error_of(": 1"), "f:1:1: error: a key must be a word (is a bracket not closed?)");
}

TEST(YamlTree, RefusesQuotesThatAreNotClosed) {
  EXPECT_EQ(error_of("a: \"x\n"), "f:1:4: error: the quote is not closed");
  EXPECT_EQ(error_of("a: \"x\\\"\n"), "f:1:4: error: the quote is not closed");
  EXPECT_EQ(error_of("a: 'x''\n"), "f:1:4: error: the quote is not closed");
  EXPECT_EQ(parse_yaml("f", "a: 'it''s'\n").entries[0].value.text, "it's");
}

TEST(YamlTree, RefusesAnchorsAliasesAndTags) {
  EXPECT_EQ(error_of("a: &x 1"), "f:1:4: error: anchors and aliases are not supported");
  EXPECT_EQ(error_of("a: *x"), "f:1:4: error: anchors and aliases are not supported");
  EXPECT_EQ(error_of("a: !!int 1"), "f:1:4: error: tags are not supported");
  EXPECT_EQ(error_of("a: ! 1"), "f:1:4: error: tags are not supported");
  EXPECT_EQ(error_of("a: !<x> [1]"), "f:1:4: error: tags are not supported");
  EXPECT_EQ(error_of("!2"), "f:1:1: error: tags are not supported");
}

TEST(YamlTree, RefusesNoneAndFurtherDocuments) {
  for (const char* text : {"", "\n\n", "# c\n"}) {
    EXPECT_EQ(error_of(text), "f:1:1: error: the document is empty");
  }
  EXPECT_EQ(error_of("a: 1\n---\nb: 2"), "f:2:1: error: further documents are not supported");
  EXPECT_EQ(error_of("a: 1\n...\nb: 2"), "f:3:1: error: further documents are not supported");
  EXPECT_EQ(parse_yaml("f", "---\na: 1\n...\n").entries.size(), 1u);
}

TEST(YamlTree, RefusesBytesThatAreNoText) {
  EXPECT_EQ(error_of("a: 1\nb: \xFF"), "f:2:4: error: invalid UTF-8: byte 0xFF");
  EXPECT_EQ(error_of("\xC3\xA9: \xC3("), "f:1:4: error: invalid UTF-8: byte 0xC3");
  EXPECT_EQ(error_of("a: \xC0\x80"), "f:1:4: error: invalid UTF-8: byte 0xC0");          // overlong
  EXPECT_EQ(error_of("a: \xE0\x80\x80"), "f:1:4: error: invalid UTF-8: byte 0xE0");      // overlong
  EXPECT_EQ(error_of("a: \xF0\x8F\xBF\xBF"), "f:1:4: error: invalid UTF-8: byte 0xF0");  // overlong
  EXPECT_EQ(error_of("a: \xED\xA0\x80"), "f:1:4: error: invalid UTF-8: byte 0xED");  // surrogate
  EXPECT_EQ(error_of("a: \xF4\x90\x80\x80"),
            "f:1:4: error: invalid UTF-8: byte 0xF4");                           // too large
  EXPECT_EQ(error_of("a: \xE2\x82"), "f:1:4: error: invalid UTF-8: byte 0xE2");  // cut
  EXPECT_EQ(error_of(std::string("a: \0x", 5)),
            "f:1:4: error: control character U+0000 is not allowed");
  EXPECT_EQ(error_of("a: 1\x04\nb"), "f:1:5: error: control character U+0004 is not allowed");
  EXPECT_EQ(error_of("a: \x7F"), "f:1:4: error: control character U+007F is not allowed");
  EXPECT_EQ(error_of("a:\n\tb: 1"), "f:2:1: error: a tab is not allowed: use spaces");
  EXPECT_EQ(error_of("a: 1\rb: 2"),
            "f:1:5: error: a carriage return is allowed only before a line feed");
}

TEST(YamlTree, RefusesDeepNesting) {
  const auto repeat = [](const std::string& text, int times) {
    std::string result;
    for (int i = 0; i < times; ++i) result += text;
    return result;
  };
  EXPECT_EQ(error_of(repeat("[", 20000)), "f:1:1001: error: nested deeper than 64 levels");
  EXPECT_EQ(error_of(repeat("{a: ", 20000)), "f:1:4001: error: nested deeper than 64 levels");
  EXPECT_EQ(error_of(repeat("- ", 20000)), "f:1:129: error: nested deeper than 64 levels");
  EXPECT_EQ(error_of(repeat("[", 65) + repeat("]", 65)),
            "f:1:65: error: nested deeper than 64 levels");
  EXPECT_EQ(parse_yaml("f", repeat("[", 63) + "[1]" + repeat("]", 63)).items.size(), 1u);
}

TEST(YamlTree, RefusesTextsAboveOneMebibyte) {
  std::string text = "a: 1\n#";
  text.resize(kMaxYamlBytes, 'x');
  EXPECT_NO_THROW(parse_yaml("f", text));
  EXPECT_EQ(error_of(text + "x"), "f:2:1048572: error: longer than 1 MiB");
}

TEST(YamlTree, PlacesErrorsOfAValueAtItsPlace) {
  const Place place{"--set a='x"};
  try {
    parse_yaml_value(place, "'x");
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "--set a='x: error: the quote is not closed");
  }
}

TEST(YamlText, ShowsTextCutAtACharacterWithoutControlCharacters) {
  EXPECT_EQ(shown("a\nb"), "a\\nb");
  EXPECT_EQ(shown(std::string(40, 'x')), std::string(40, 'x'));
  EXPECT_EQ(shown(std::string(39, 'x') + "\xC3\xA9"), std::string(39, 'x') + "...");
}

}  // namespace
}  // namespace dcp
