// `dcpsim list`: every word that a scenario or a report may name.
#pragma once

#include <iosfwd>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace dcp {

struct Options;

struct ListEntry {
  std::string name;
  std::string about;
};

struct ListSection {
  std::string title;  // also its key in JSON
  std::vector<ListEntry> entries;
};

// Strategies, model presets, steps, keys of `set`, hazards, failures, errors.
std::vector<ListSection> known_words();

void print_sections(std::ostream& out, std::span<const ListSection> sections);

// {schema_version, tool, <title>: [{name, about}], ...}
nlohmann::ordered_json list_report(std::span<const ListSection> sections);

int list_command(const Options& options);

}  // namespace dcp
