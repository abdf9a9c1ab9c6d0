#include "cli/check.hpp"

#include <iostream>
#include <new>

#include "cli/backend_text.hpp"
#include "cli/check_inputs.hpp"
#include "cli/check_json.hpp"
#include "cli/check_text.hpp"
#include "cli/input_files.hpp"
#include "cli/json_file.hpp"
#include "core/error.hpp"
#include "core/printable_text.hpp"
#include "strategies/registry.hpp"

namespace dcp {

namespace {

constexpr std::uint64_t kDefaultSeed = 1;

std::vector<const Strategy*> strategies_to_check(const Options& options) {
  if (options.strategies.empty()) return {all_strategies().begin(), all_strategies().end()};
  std::vector<const Strategy*> strategies;
  for (const std::string& name : options.strategies) strategies.push_back(find_strategy(name));
  return strategies;
}

// The case that the strategies run on: what they should start from, and what should come of it.
VectorCase case_of(const std::string& name, const EngineDump& dump,
                   const std::vector<CombinedRow>& right) {
  VectorCase test{.name = name,
                  .partials = dump.masked_partials(),
                  .truth_out = {},
                  .truth_lse = {},
                  .seed = {}};
  for (const CombinedRow& row : right) {
    test.truth_out.insert(test.truth_out.end(), row.out.begin(), row.out.end());
    test.truth_lse.push_back(row.lse);
  }
  return test;
}

struct Totals {
  int cases = 0;
  int passed = 0;
  int failed = 0;
  int variants = 0;  // among passed and failed
  int refused_files = 0;
  int steps_without_rows = 0;
  int seed_outside = 0;

  void add(const EngineVerdict& verdict) { ++(verdict.passed() ? passed : failed); }
  void add(const VectorVerdict& verdict) {
    ++(verdict.passed() ? passed : failed);
    variants += !verdict.variant.empty();
    seed_outside += !verdict.seed_passed();
  }
  int exit_code() const { return refused_files > 0 ? 2 : failed > 0 ? 1 : 0; }
};

class CheckRun {
 public:
  explicit CheckRun(const Options& options)
      : options_(options),
        seed_(options.seed.value_or(kDefaultSeed)),
        strategies_(strategies_to_check(options)),
        json_(report_head(options.backend)) {
    json_["tool"]["seed"] = seed_;
    json_["files"] = nlohmann::ordered_json::array();
    std::cout << "dcpsim " DCPSIM_VERSION ", " << backend_text(options.backend) << ", seed "
              << seed_ << '\n';
  }

  void check(const CheckInput& input) {
    const std::string& path = input.path;
    json_["files"].push_back({{"file", path}, {"source", nullptr}, {"error", nullptr}});
    auto& json = json_["files"].back();
    json["cases"] = nlohmann::ordered_json::array();
    try {
      input.is_dump ? check_dump(input, json) : check_vectors(path, json);
    } catch (const InputError& error) {
      refuse(path, error, json);
    } catch (const std::bad_alloc&) {
      refuse(path, InputError({.file = path}, "this machine's memory does not hold it"), json);
    }
  }

  int finish() const {
    if (totals_.cases == 0 && totals_.refused_files == 0) {
      throw InputError({.file = "dcpsim"}, totals_.steps_without_rows > 0
                                               ? "no step has rows, so nothing was checked"
                                               : "no case matches the filter");
    }
    std::cout << totals_.cases << " cases, " << totals_.passed << " checks passed, "
              << totals_.failed << " failed, " << totals_.refused_files << " files refused\n";
    if (totals_.variants > 0) {
      std::cout << "checks of variants" << (options_.verbose ? "" : " (--verbose shows them)")
                << ": " << totals_.variants << '\n';
    }
    if (totals_.seed_outside > 0) {
      std::cout << "checks where the file's own result is outside the tolerance: "
                << totals_.seed_outside << '\n';
    }
    if (!options_.json_path.empty()) write_json_file(options_.json_path, json_);
    return totals_.exit_code();
  }

 private:
  void refuse(const std::string& path, const InputError& error, nlohmann::ordered_json& json) {
    json["error"] = error.what();
    ++totals_.refused_files;
    std::cout << "REFUSED  " << printable_text(path) << "\n  " << error.what() << '\n';
  }

  bool is_wanted(const std::string& path, const std::string& name) const {
    return matches_filter(path, options_.filter) || matches_filter(name, options_.filter);
  }

  void check_vectors(const std::string& path, nlohmann::ordered_json& json) {
    const VectorFile file = read_vector_file(path);
    json["source"] = file.source;
    bool first = true;
    for (const VectorCase& test : file.cases) {
      if (!is_wanted(path, test.name)) continue;
      if (first) print_check_head(std::cout, path, file.source);
      first = false;
      report({.files = {path}, .name = test.name, .verdicts = verdicts_of(test), .engine = {}},
             json["cases"]);
    }
    std::cout.flush();
  }

  void check_dump(const CheckInput& input, nlohmann::ordered_json& json) {
    input.require_all_ranks();
    const std::vector<EngineDump> layers = read_engine_dump(input.files, input.per_rank);
    json["source"] = layers.front().source;
    if (layers.front().partials.num_tokens == 0) {
      pass_over(input);
      return;
    }
    bool first = true;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      const std::string name =
          layers.size() == 1 ? input.name : input.name + ".layer-" + std::to_string(layer);
      if (!is_wanted(input.path, name)) continue;
      if (first) print_check_head(std::cout, input.path, layers.front().source);
      first = false;
      check_layer(input, name, layers[layer], json);
    }
    std::cout.flush();
  }

  void pass_over(const CheckInput& input) {
    if (!is_wanted(input.path, input.name)) return;
    ++totals_.steps_without_rows;
    std::cout << "no rows  " << printable_text(input.path) << '\n';
  }

  void check_layer(const CheckInput& input, const std::string& name, const EngineDump& dump,
                   nlohmann::ordered_json& json) {
    const std::vector<CombinedRow> right = combine_partials(dump.masked_partials());
    CheckedCase checked{.files = input.files,
                        .name = name,
                        .verdicts = verdicts_of(case_of(name, dump, right)),
                        .engine = {}};
    if (dump.has_out() || dump.has_lse()) checked.engine = check_engine(dump, right);
    report(checked, json["cases"]);
  }

  std::vector<VectorVerdict> verdicts_of(const VectorCase& test) const {
    return check_vector_case(test, strategies_, {.backend = options_.backend, .seed = seed_});
  }

  void report(const CheckedCase& checked, nlohmann::ordered_json& json) {
    const CheckText style{.color = options_.color, .variants = options_.verbose};
    print_checked_case(std::cout, checked, seed_, style);
    json.push_back(checked_case_json(checked));
    ++totals_.cases;
    for (const VectorVerdict& verdict : checked.verdicts) totals_.add(verdict);
    if (checked.engine) totals_.add(*checked.engine);
  }

  const Options& options_;
  std::uint64_t seed_;
  std::vector<const Strategy*> strategies_;
  nlohmann::ordered_json json_;
  Totals totals_;
};

}  // namespace

int check_command(const Options& options) {
  const auto files = input_files(options.paths, {".json", ".safetensors"});
  CheckRun run(options);
  for (const CheckInput& input : check_inputs(files)) run.check(input);
  return run.finish();
}

}  // namespace dcp
