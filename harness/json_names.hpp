// Watches a JSON document while it is parsed: of a field that an object has twice the parser would
// keep the last in silence.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace dcp {

class JsonNames {
 public:
  explicit JsonNames(std::string path) : path_(std::move(path)) {}

  // To be called for each event. InputError, with the object's JSON pointer, for a name that comes
  // twice.
  void watch(nlohmann::json::parse_event_t event, const nlohmann::json& parsed);

 private:
  struct Open {
    bool is_object;
    std::set<std::string> names = {};  // of an object so far, and the last
    std::string name = {};
    std::size_t num_items = 0;  // of an array so far, with the one at hand
  };
  std::string pointer() const;  // of the innermost that is open

  std::string path_;
  std::vector<Open> open_;
};

}  // namespace dcp
