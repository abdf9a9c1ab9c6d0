#include "cli/progress_line.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace dcp {
namespace {

TEST(ProgressLine, SaysHowFarAndWhatIsRunning) {
  std::ostringstream out;
  ProgressLine line(out, true, 80);
  line.show(12, 44, "scenarios/x.yaml");
  EXPECT_EQ(out.str(), "  12/44 scenarios, now scenarios/x.yaml");
}

TEST(ProgressLine, ShowsTheEndOfALongPath) {
  std::ostringstream out;
  ProgressLine line(out, true, 39);
  line.show(1, 2, "/a/long/folder/of/\xC3\xA9t\xC3\xA9/name.yaml");
  EXPECT_EQ(out.str(), "  1/2 scenarios, now ...t\xC3\xA9/name.yaml");
}

TEST(ProgressLine, IsWrittenOverAndErasedWithBlanks) {
  std::ostringstream out;
  ProgressLine line(out, true, 80);
  line.show(1, 2, "");
  out.str("");
  line.show(2, 2, "");
  const std::string blanks(std::string("  2/2 scenarios").size(), ' ');
  EXPECT_EQ(out.str(), "\r" + blanks + "\r  2/2 scenarios");
  out.str("");
  line.erase();
  EXPECT_EQ(out.str(), "\r" + blanks + "\r");
  out.str("");
  line.erase();
  EXPECT_EQ(out.str(), "");
}

// What wraps into a second line of the terminal could not be erased.
TEST(ProgressLine, StaysBelowTheWidthOfTheTerminal) {
  for (const std::size_t width : {0, 1, 10, 24}) {
    std::ostringstream out;
    ProgressLine line(out, true, width);
    line.show(1, 2, "a/file/with/a/long/name.yaml");
    EXPECT_EQ(out.str().size(), width == 0 ? 0 : width - 1);
  }
}

TEST(ProgressLine, IsSilentWhereItIsNotWanted) {
  std::ostringstream out;
  ProgressLine line(out, false, 80);
  line.show(1, 2, "x");
  line.erase();
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace dcp
