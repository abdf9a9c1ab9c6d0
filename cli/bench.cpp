#include "cli/bench.hpp"

#include <iomanip>
#include <iostream>

#include "bench/exchange_bench.hpp"
#include "bench/kernel_bench.hpp"
#include "bench/step_bench.hpp"
#include "cli/command_line.hpp"
#include "cli/input_files.hpp"
#include "cli/json_file.hpp"
#include "core/error.hpp"
#include "strategies/registry.hpp"

namespace dcp {

namespace {

class Table {
 public:
  void add(const BenchRecord& record) {
    if (record.name == "copy_kernel") ceiling_gbps_ = record.gbps();
    const bool is_ceiling = record.num_tokens == 0;
    if (!is_ceiling && !has_head_) print_head();
    std::cout << std::left << std::setw(18) << record.name << std::right;
    if (!is_ceiling) {
      std::cout << std::setw(12) << record.layout << std::setw(6) << record.dtype << std::setw(4)
                << record.world_size << std::setw(5) << record.num_heads << std::setw(5)
                << record.head_dim << std::setw(6) << record.num_tokens << std::setw(5)
                << record.level;
    }
    std::cout << std::fixed << std::setprecision(2) << std::setw(10) << record.time_us << " us"
              << std::setprecision(1) << std::setw(9) << record.gbps() << " GB/s";
    if (!is_ceiling) std::cout << std::setprecision(2) << std::setw(7) << ratio(record);
    std::cout << std::endl;
    json_.push_back(json(record));
  }

  const nlohmann::ordered_json& json() const { return json_; }

 private:
  double ratio(const BenchRecord& record) const {
    return ceiling_gbps_ > 0 ? record.gbps() / ceiling_gbps_ : 0;
  }

  void print_head() {
    has_head_ = true;
    std::cout << "\nkernel                  layout dtype   N    H    D     T from        time"
                 "         rate  of copy\n";
  }

  nlohmann::ordered_json json(const BenchRecord& record) const {
    nlohmann::ordered_json json = {{"kernel", record.name}, {"layout", nullptr},
                                   {"dtype", nullptr},      {"world_size", nullptr},
                                   {"num_heads", nullptr},  {"head_dim", nullptr},
                                   {"num_tokens", nullptr}};
    if (!record.layout.empty()) json["layout"] = record.layout;
    if (record.num_tokens > 0) {
      json["dtype"] = record.dtype;
      json["world_size"] = record.world_size;
      json["num_heads"] = record.num_heads;
      json["head_dim"] = record.head_dim;
      json["num_tokens"] = record.num_tokens;
    }
    json["from"] = record.level;
    json["time_us"] = record.time_us;
    json["bytes"] = record.size_bytes;
    json["gbps"] = record.gbps();
    json["of_copy_kernel"] = ratio(record);
    return json;
  }

  bool has_head_ = false;
  double ceiling_gbps_ = 0;
  nlohmann::ordered_json json_ = nlohmann::ordered_json::array();
};

class StepTable {
 public:
  void add(const StepRecord& record) {
    if (json_.empty()) {
      std::cout << "\nstep                           nodes    capture     replay   stage    copy"
                   "  launch        step\n";
    }
    std::cout << std::left << std::setw(29) << record.label << std::right << std::setw(7)
              << record.num_nodes << std::fixed << std::setprecision(2) << std::setw(8)
              << record.capture_ms << " ms" << std::setw(8) << record.replay_us << " us"
              << std::setw(8) << record.stage_us << std::setw(8) << record.copy_us << std::setw(8)
              << record.launch_us << std::setw(9) << record.step_us << " us\n ";
    for (const auto& [op, us] : record.op_us) std::cout << ' ' << op << ' ' << us << " us";
    std::cout << std::endl;
    json_.push_back({{"step", record.label},
                     {"nodes", record.num_nodes},
                     {"capture_ms", record.capture_ms},
                     {"replay_us", record.replay_us},
                     {"stage_us", record.stage_us},
                     {"copy_us", record.copy_us},
                     {"launch_us", record.launch_us},
                     {"step_us", record.step_us},
                     {"op_us", record.op_us}});
  }

  const nlohmann::ordered_json& json() const { return json_; }

 private:
  nlohmann::ordered_json json_ = nlohmann::ordered_json::array();
};

class ExchangeTable {
 public:
  void add(const ExchangeRecord& record) {
    if (json_.empty()) {
      std::cout << "\nexchange                                      nodes        time      sent\n";
    }
    std::cout << std::left << std::setw(44) << record.label << std::right << std::fixed
              << std::setprecision(1) << std::setw(7) << record.num_nodes << std::setprecision(2)
              << std::setw(9) << record.time_us << " us" << std::setw(10) << record.sent_bytes
              << std::endl;
    json_.push_back({{"exchange", record.label},
                     {"nodes", record.num_nodes},
                     {"time_us", record.time_us},
                     {"sent_bytes", record.sent_bytes}});
  }

  const nlohmann::ordered_json& json() const { return json_; }

 private:
  nlohmann::ordered_json json_ = nlohmann::ordered_json::array();
};

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const Strategy* strategy : all_strategies()) names.emplace_back(strategy->name());
  return names;
}

}  // namespace

int bench_command(const Options& options) {
  const BackendChoice choice{.backend = Backend::kCuda};
  std::string why;
  if (!has_backend(choice, why)) {
    throw InputError({.file = "dcpsim"}, "'bench' times kernels on a GPU: " + why);
  }
  Table table;
  ExchangeTable exchanges;
  StepTable steps;
  const auto wants = [&](const std::string& label) {
    return matches_filter(label, options.filter);
  };
  bench_kernels({.cases = default_kernel_cases(),
                 .num_tokens = default_token_counts(),
                 .wants = wants,
                 .report = [&](const BenchRecord& record) { table.add(record); }});
  bench_exchanges({.cases = default_exchange_cases(),
                   .forms = default_exchange_forms(),
                   .wants = wants,
                   .report = [&](const ExchangeRecord& record) { exchanges.add(record); }});
  bench_steps({.cases = default_step_cases(),
               .strategies = strategy_names(),
               .wants = wants,
               .report = [&](const StepRecord& record) { steps.add(record); }});
  if (!options.json_path.empty()) {
    nlohmann::ordered_json report = report_head(choice);
    report["tool"]["num_peer_gpus"] =
        machine_of(choice).num_peer_gpus;  // that ranks are spread over
    report["records"] = table.json();
    report["exchanges"] = exchanges.json();
    report["steps"] = steps.json();
    write_json_file(options.json_path, report);
  }
  return 0;
}

}  // namespace dcp
