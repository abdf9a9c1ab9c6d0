// A map of the file with the keys that it may have: makes the readers of the format's parts short.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/reader/scalars.hpp"

namespace dcp::reader {

class MapReader {
 public:
  // Refuses what is no map, and the first key that is not in `keys` (with the nearest one). `path`
  // is the dotted key of the map, "" for the whole file. `spellings` are further words to suggest.
  MapReader(const YamlNode& node, std::string path, std::initializer_list<std::string_view> keys,
            std::initializer_list<std::string_view> spellings = {});

  // Null where the file does not have the key. `key` must be one of the constructor's.
  const YamlNode* find(std::string_view key) const;
  // Refuses the map where the key is missing.
  const YamlNode& require(std::string_view key) const;

  // Dotted key for messages.
  std::string path(std::string_view key) const;
  const YamlNode& node() const { return node_; }

  // into = reader(value), or untouched where the key is absent.
  template <class Reader, class Target>
  void optional(std::string_view key, Reader read, Target& into) const {
    if (const YamlNode* value = find(key)) into = Target(read(*value, path(key)));
  }

  template <class Reader, class Target>
  void required(std::string_view key, Reader read, Target& into) const {
    into = Target(read(require(key), path(key)));
  }

 private:
  const YamlNode& node_;
  std::string path_;
  std::vector<std::string_view> keys_;
};

}  // namespace dcp::reader
