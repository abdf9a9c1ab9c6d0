#include "cli/comparison_json.hpp"

#include <cmath>

namespace dcp {

namespace {

using Json = nlohmann::ordered_json;

Json number_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

}  // namespace

Json comparison_json(const Comparison& comparison) {
  Json json = {{"max_abs_error", number_json(comparison.max_abs_error)},
               {"max_error_over_tolerance", number_json(comparison.max_error_over_tolerance)},
               {"first_bad", nullptr}};
  if (!comparison.first_bad) return json;
  const ElementPlace& at = comparison.first_bad->at;
  json["first_bad"] = {{"rank", at.rank},
                       {"layer", at.layer},
                       {"row", at.row},
                       {"head", at.head},
                       {"element", at.element < 0 ? Json("lse") : Json(at.element)},
                       {"got", number_json(comparison.first_bad->got)},
                       {"want", number_json(comparison.first_bad->want)}};
  return json;
}

}  // namespace dcp
