#include "core/spelling.hpp"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

namespace dcp {

namespace {

// Optimal string alignment distance, ASCII case ignored.
std::size_t edits(std::string_view a, std::string_view b) {
  const auto same = [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  };
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before_last, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

constexpr std::size_t kMaxWordLength = 64;  // longer words are no near misses of ours

}  // namespace

std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates) {
  if (word.empty() || word.size() > kMaxWordLength) return "";
  std::size_t best_edits = std::min<std::size_t>(word.size() / 3, 3) + 1;
  std::string_view best;
  for (const std::string_view candidate : candidates) {
    if (candidate.size() > kMaxWordLength) continue;
    const std::size_t distance = edits(word, candidate);
    if (distance < best_edits) {
      best_edits = distance;
      best = candidate;
    }
  }
  return best.empty() ? "" : std::string(" (did you mean '").append(best).append("'?)");
}

}  // namespace dcp
