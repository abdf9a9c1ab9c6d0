#include "cli/token_picture.hpp"

#include <algorithm>

namespace dcp {

namespace {

constexpr std::int64_t kMostDigits = 48;
constexpr std::int64_t kDigitsAtEnd = 12;

}  // namespace

char rank_digit(int rank) {
  constexpr char kDigits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ@#";
  return kDigits[rank % 64];
}

std::int64_t tokens_per_digit(const BatchLayout& layout, std::int64_t interleave) {
  return layout.contiguous ? 1 : interleave;
}

std::string token_picture(const BatchLayout& layout, const Shard& group, std::int64_t request) {
  const std::int64_t length = layout.seq_lens[request];
  const std::int64_t width = tokens_per_digit(layout, group.interleave);
  const std::int64_t num_digits = (length + width - 1) / width;
  const std::int64_t round = layout.contiguous ? kMostDigits : group.world_size;
  const std::int64_t first_new = width == 1 ? length - layout.query_len(request) : length;
  std::string text;
  for (std::int64_t digit = 0; digit < num_digits; ++digit) {
    if (num_digits > kMostDigits && digit == kMostDigits - kDigitsAtEnd) {
      const std::int64_t shown = std::min(num_digits - kDigitsAtEnd, first_new / width);
      text += " ... ";
      digit = std::max(digit, shown / round * round);
    }
    const std::int64_t token = digit * width;
    if (digit > 0 && (digit % round == 0 || token == first_new) && text.back() != ' ') text += ' ';
    if (token == first_new) text += '[';
    text += rank_digit(owner_of_token(layout, group, request, token));
  }
  if (first_new < length) text += ']';
  return text;
}

}  // namespace dcp
