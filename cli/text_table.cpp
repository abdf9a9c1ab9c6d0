#include "cli/text_table.hpp"

#include <algorithm>
#include <ostream>
#include <sstream>

namespace dcp {

void print_wrapped(std::ostream& out, const std::string& head, const std::string& text) {
  std::istringstream words(text);
  std::string line = head;
  bool is_new = true;  // nothing stands after the head or the indent
  for (std::string word; words >> word;) {
    if (!is_new && line.size() + 1 + word.size() > kTextWidth) {
      out << line << '\n';
      line.assign(head.size(), ' ');
      is_new = true;
    }
    line += (is_new ? "" : " ") + word;
    is_new = false;
  }
  out << line << '\n';
}

TextTable::TextTable(std::vector<std::string> titles) : right_(titles.size(), false) {
  rows_.push_back(std::move(titles));
}

void TextTable::print(std::ostream& out, const std::string& indent) const {
  std::vector<std::size_t> widths(right_.size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows_) {
    std::string line = indent;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      line += (i == 0 ? "" : "  ") + (right_[i] ? padding + row[i] : row[i] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    if (line.size() > kTextWidth) line = line.substr(0, kTextWidth - 3) + "...";
    out << line << '\n';
  }
}

}  // namespace dcp
