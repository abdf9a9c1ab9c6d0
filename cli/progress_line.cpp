#include "cli/progress_line.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <ostream>

#include "core/printable_text.hpp"

namespace dcp {

namespace {

// The end of a path, which tells it from others, in at most `room` bytes.
std::string tail_of(const std::string& path, std::size_t room) {
  constexpr std::string_view kCut = "...";
  if (path.size() <= room || room <= kCut.size()) return path;
  std::size_t begin = path.size() - (room - kCut.size());
  while (begin < path.size() && is_utf8_continuation(path[begin])) ++begin;
  return std::string(kCut) + path.substr(begin);
}

}  // namespace

void ProgressLine::show(std::size_t done, std::size_t total, const std::string& now) {
  if (!enabled_) return;
  std::string line = "  " + std::to_string(done) + "/" + std::to_string(total) + " scenarios";
  if (!now.empty()) {
    line += ", now ";
    const std::size_t room = width_ > line.size() + 1 ? width_ - 1 - line.size() : 0;
    line += tail_of(printable_text(now), room);
  }
  // A line that wraps cannot be taken back. The last column stays free: some terminals wrap there.
  if (line.size() >= width_) line.resize(width_ > 0 ? width_ - 1 : 0);
  erase();
  out_ << line << std::flush;
  shown_ = line.size();
}

// With blanks and not with an escape sequence, which not every terminal knows.
void ProgressLine::erase() {
  if (shown_ == 0) return;
  out_ << '\r' << std::string(shown_, ' ') << '\r' << std::flush;
  shown_ = 0;
}

std::size_t terminal_width() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

}  // namespace dcp
