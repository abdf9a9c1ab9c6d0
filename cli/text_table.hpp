// Tables and wrapped lines of a report, at most 100 columns wide.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

namespace dcp {

inline constexpr std::size_t kTextWidth = 100;

// `head`, then the words of `text`; further lines begin below the first word.
void print_wrapped(std::ostream& out, const std::string& head, const std::string& text);

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> titles);

  void align_right(std::size_t column) { right_[column] = true; }
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // Columns as wide as their widest cell, two spaces between them. What is too long for a line ends
  // with "...".
  void print(std::ostream& out, const std::string& indent) const;

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;  // the titles first
};

}  // namespace dcp
