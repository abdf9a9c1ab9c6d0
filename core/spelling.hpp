// Suggestions for misspelt words.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace dcp {

// " (did you mean 'x'?)" with the candidate nearest to `word`, or "" where none is near: edits
// (insert, delete, replace, swap neighbours) must be at most 3, and at most a third of the word's
// length.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace dcp
