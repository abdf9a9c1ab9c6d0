#include "harness/json_names.hpp"

#include "core/error.hpp"
#include "core/yaml_text.hpp"

namespace dcp {

void JsonNames::watch(nlohmann::json::parse_event_t event, const nlohmann::json& parsed) {
  using Event = nlohmann::json::parse_event_t;
  if (event == Event::object_end || event == Event::array_end) {
    open_.pop_back();
    return;
  }
  if (event == Event::key) {
    Open& object = open_.back();
    object.name = parsed.get<std::string>();
    if (object.names.insert(object.name).second) return;
    const std::string why = "the field '" + shown(object.name) + "' is there twice";
    if (open_.size() == 1) throw InputError({.file = path_, .line = 1, .column = 1}, why);
    throw InputError({.file = path_}, pointer() + ": " + why);
  }
  if (!open_.empty() && !open_.back().is_object) ++open_.back().num_items;
  if (event == Event::object_start) open_.push_back({.is_object = true});
  if (event == Event::array_start) open_.push_back({.is_object = false});
}

std::string JsonNames::pointer() const {
  nlohmann::json::json_pointer pointer;
  for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
    if (open_[i].is_object) {
      pointer /= open_[i].name;
    } else {
      pointer /= open_[i].num_items - 1;
    }
  }
  return pointer.to_string();
}

}  // namespace dcp
