// The verdict on many elements: the worst error, and the first element outside its tolerance.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>

namespace dcp {

// Where an element stands. Ordered: what breaks first, breaks in the lowest layer.
struct ElementPlace {
  int layer = 0;
  int rank = 0;
  std::int64_t row = 0;
  int head = 0;
  int element = -1;  // -1: the lse

  friend auto operator<=>(const ElementPlace&, const ElementPlace&) = default;
};

struct FirstBad {
  ElementPlace at;
  double got;
  double want;
};

struct Comparison {
  double max_abs_error = 0;
  double max_error_over_tolerance = 0;  // above 1: failed
  std::optional<FirstBad> first_bad;    // the lowest place

  // |got - want| <= tolerance. Equal values, infinities too, have error 0; a NaN on either side
  // has an infinite one, as has an infinity beside anything else.
  void add(const ElementPlace& at, double got, double want, double tolerance);

  void merge(const Comparison& other);

  bool passed() const { return !first_bad; }
};

}  // namespace dcp
