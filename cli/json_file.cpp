#include "cli/json_file.hpp"

#include "cli/report_file.hpp"

namespace dcp {

nlohmann::ordered_json report_head() {
  return {{"schema_version", 1}, {"tool", {{"name", "dcpsim"}, {"version", DCPSIM_VERSION}}}};
}

nlohmann::ordered_json report_head(const BackendChoice& choice) {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
  };
  nlohmann::ordered_json head = report_head();
  const Machine machine = machine_of(choice);
  head["tool"].update({{"backend", name(choice.backend)},
                       {"comm", comm_name(choice)},
                       {"gpu", text_or_null(machine.gpus)},
                       {"driver", text_or_null(machine.driver)},
                       {"nccl", text_or_null(machine.nccl)}});
  return head;
}

void write_json_file(const std::string& path, const nlohmann::ordered_json& report) {
  // File names may hold bytes that are no text: JSON gets U+FFFD for them.
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  write_report_file(path, report.dump(2, ' ', false, kReplace) + '\n');
}

}  // namespace dcp
