#include "core/error.hpp"

#include "core/printable_text.hpp"

namespace dcp {

std::string Place::text() const {
  std::string text = file;
  if (line > 0) text += ":" + std::to_string(line);
  if (line > 0 && column > 0) text += ":" + std::to_string(column);
  return text;
}

namespace {

std::string with_place(const Place& place, std::string_view message) {
  std::string text = printable_text(place.text());
  if (!text.empty()) text += ": ";
  return text.append("error: ").append(printable_text(message));
}

std::string with_kind(std::string_view kind, std::string_view why) {
  return std::string(kind).append(": ").append(why);
}

}  // namespace

InputError::InputError(Place place, std::string_view message)
    : std::runtime_error(with_place(place, message)), place_(std::move(place)), message_(message) {}

StepError::StepError(std::string_view kind, std::string_view why)
    : std::runtime_error(with_kind(kind, why)), kind_(kind), why_(why) {}

Failure::Failure(std::string_view kind, int rank, std::string_view why)
    : std::runtime_error(with_kind(kind, why)), kind_(kind), why_(why), rank_(rank) {}

}  // namespace dcp
