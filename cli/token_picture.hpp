// A request's tokens as one line of text: who owns which.
#pragma once

#include <cstdint>
#include <string>

#include "engine/batch_layout.hpp"

namespace dcp {

// The rank as one character: 0-9, a-z, A-Z, @, #.
char rank_digit(int rank);

// Tokens that one character of a picture stands for: the interleave; where shards are contiguous,
// one.
std::int64_t tokens_per_digit(const BatchLayout& layout, std::int64_t interleave);

// "0123 0123 [0]": one digit for each run of tokens on one rank, a gap after each round of all
// ranks, this step's own tokens in brackets where a digit is one token. A long request shows its
// beginning and its end.
std::string token_picture(const BatchLayout& layout, const Shard& group, std::int64_t request);

}  // namespace dcp
