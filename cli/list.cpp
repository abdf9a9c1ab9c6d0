#include "cli/list.hpp"

#include <algorithm>
#include <iostream>

#include "cli/command_line.hpp"
#include "cli/json_file.hpp"
#include "core/kinds.hpp"
#include "core/scenario_reader.hpp"
#include "core/step_words.hpp"
#include "core/supported.hpp"
#include "strategies/registry.hpp"

namespace dcp {
namespace {

constexpr Kind kVerbs[] = {
    {"capture", "record graphs on all ranks: all sizes, some, or one by name"},
    {"replay", "load a batch into the captured buffers and launch the graph"},
    {"eager", "the same step without a graph"},
    {"together", "steps of different ranks at the same time"},
    {"sync", "drain everything"},
    {"lock", "forbid the workspace to grow"},
    {"grow", "grow the workspace now"},
    {"allocate", "make a buffer"},
    {"free", "give a buffer back"},
    {"rebind", "replace a buffer by a fresh allocation"},
    {"remap", "put other memory behind a buffer's address"},
    {"poison", "fill a buffer with NaN"},
    {"canary", "fill a buffer with a mark"},
    {"check_canary", "the mark must still stand"},
    {"stub_attention", "what attention leaves in empty and padded rows from here on"},
    {"set", "change one dynamic value"},
    {"stall", "delay an operation of one rank until a step"},
    {"skip", "leave out an operation"},
    {"during_capture", "make a call inside the next capture"},
    {"throw", "throw an exception inside the next capture"},
    {"fork", "fork a stream"},
    {"join", "join a stream"},
    {"place", "put a ubatch on a stream"},
    {"destroy", "tear down a graph or the communicators"},
};

ListSection section_of(std::string title, std::span<const Kind> kinds) {
  ListSection section{std::move(title), {}};
  for (const Kind& kind : kinds) {
    section.entries.push_back({std::string(kind.name), std::string(kind.description)});
  }
  return section;
}

ListSection unsupported_section() {
  ListSection section{"not supported yet", {}};
  for (const UnsupportedSetting& setting : unsupported_settings()) {
    section.entries.push_back({std::string(setting.key), std::string(setting.value)});
  }
  return section;
}

ListSection strategy_section() {
  ListSection section{"strategies", {}};
  for (const Strategy* strategy : all_strategies()) {
    section.entries.push_back({std::string(strategy->name()), std::string(strategy->describe())});
  }
  return section;
}

std::string describe(const Model& model) {
  const std::string heads = std::to_string(model.num_heads) + " heads";
  if (model.attention == Attention::kMla) {
    return "MLA, " + heads + ", kv_lora_rank " + std::to_string(model.kv_lora_rank) +
           ", rope_dim " + std::to_string(model.rope_dim);
  }
  return "GQA, " + heads + ", " + std::to_string(model.num_kv_heads) + " KV heads, head_dim " +
         std::to_string(model.head_dim);
}

ListSection model_section() {
  ListSection section{"models", {}};
  for (const auto& [name, model] : model_presets()) {
    section.entries.push_back({name, describe(model)});
  }
  return section;
}

}  // namespace

std::vector<ListSection> known_words() {
  return {
      strategy_section(),
      model_section(),
      section_of("steps", kVerbs),
      section_of("set", settable_values()),
      section_of("operations", operation_words()),
      section_of("calls", capture_calls()),
      section_of("metadata", metadata_words()),
      section_of("buffers", buffer_kinds()),
      section_of("hazards", hazard_kinds()),
      section_of("failures", failure_kinds()),
      section_of("errors", error_kinds()),
      unsupported_section(),
  };
}

void print_sections(std::ostream& out, std::span<const ListSection> sections) {
  for (const ListSection& section : sections) {
    std::size_t width = 0;
    for (const ListEntry& entry : section.entries) width = std::max(width, entry.name.size());
    out << section.title << ":\n";
    for (const ListEntry& entry : section.entries) {
      const std::string padding(width - entry.name.size() + 2, ' ');
      out << "  " << entry.name << padding << entry.about << '\n';
    }
    out << '\n';
  }
}

nlohmann::ordered_json list_report(std::span<const ListSection> sections) {
  nlohmann::ordered_json report = report_head();
  for (const ListSection& section : sections) {
    auto& entries = report[section.title] = nlohmann::ordered_json::array();
    for (const ListEntry& entry : section.entries) {
      entries.push_back({{"name", entry.name}, {"about", entry.about}});
    }
  }
  return report;
}

int list_command(const Options& options) {
  const std::vector<ListSection> sections = known_words();
  print_sections(std::cout, sections);
  if (!options.json_path.empty()) write_json_file(options.json_path, list_report(sections));
  return 0;
}

}  // namespace dcp
