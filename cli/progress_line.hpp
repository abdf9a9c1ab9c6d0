// "  12/44 scenarios, now scenarios/x.yaml": one line of a terminal that is written over.
#pragma once

#include <iosfwd>
#include <string>

namespace dcp {

class ProgressLine {
 public:
  // Shows nothing unless `enabled`. `width`: columns of the terminal.
  ProgressLine(std::ostream& out, bool enabled, std::size_t width)
      : out_(out), enabled_(enabled), width_(width) {}

  // Replaces the line. `now`: the file that is running, "" where none is.
  void show(std::size_t done, std::size_t total, const std::string& now);

  // Leaves the cursor at the start of an empty line, so that other text may follow.
  void erase();

 private:
  std::ostream& out_;
  bool enabled_;
  std::size_t width_;
  std::size_t shown_ = 0;  // columns that the line has taken
};

// Columns of the terminal behind stderr; 80 where it does not say.
std::size_t terminal_width();

}  // namespace dcp
