// Rules between the parts of an expectation: what nothing would ever be compared with must not look
// like a check.
#include <algorithm>
#include <map>

#include "core/merged_expect.hpp"
#include "core/reader/read_verbs.hpp"
#include "core/reader/scalars.hpp"

namespace dcp::reader {

namespace {

bool computes(const Verb& verb) {
  return std::holds_alternative<verb::Replay>(verb) || std::holds_alternative<verb::Eager>(verb) ||
         std::holds_alternative<verb::Together>(verb);
}

// Why a step that is held to this has no result to compare with; "" where it has one.
std::string why_no_result(const Expect& expect) {
  if (expect.error) return "a step that is refused with an error computes nothing";
  for (const ExpectedFinding& failure : expect.failures) {
    if (leaves_result(failure.kind)) continue;
    return "a step that ends with the failure '" + failure.kind + "' leaves no result";
  }
  return "";
}

// The keys of one map of an expectation. `strategies`: those under which they hold.
class WrittenValues {
 public:
  WrittenValues(const YamlNode& expect, std::string path, std::vector<std::string> strategies)
      : expect_(expect), path_(std::move(path)), strategies_(std::move(strategies)) {}

  // `step`: the one that is run, and so checked, as a whole.
  void check(const Step& step) const {
    const std::string why = why_never_compared(step);
    if (why.empty()) return;
    for (const char* key : {"out", "lse", "empty_rows", "same_bits_as", "eager_rows"}) {
      const YamlNode* value = expect_.find(key);
      if (value == nullptr) continue;
      refuse(*value, "'" + path_ + "." + key + "' says what a step computes: " + why);
    }
  }

 private:
  std::string why_never_compared(const Step& step) const {
    if (!computes(step.verb)) return "'" + step.verb_name + "' computes nothing";
    std::string why;
    for (const std::string& strategy : strategies_) {
      why = why_no_result(expectation_of(step, strategy));
      if (why.empty()) return "";
    }
    return why;
  }

  const YamlNode& expect_;
  std::string path_;
  std::vector<std::string> strategies_;
};

// Of a step as it is written, and of those that it holds together.
void check_values(const YamlNode& node, const Step& step, const StepScope& scope) {
  if (const YamlNode* expect = node.find("expect")) {
    WrittenValues(*expect, "expect", scope.scenario.strategies).check(step);
    if (const YamlNode* by_strategy = expect->find("by_strategy")) {
      for (const YamlNode::Entry& entry : by_strategy->entries) {
        const std::string& strategy = entry.key.text;
        WrittenValues(entry.value, "expect.by_strategy." + strategy, {strategy}).check(step);
      }
    }
  }
  const YamlNode* together = node.find("together");
  if (together == nullptr) return;
  for (const YamlNode& item : together->items) check_values(item, step, scope);
}

// What the parts of a step that run together say under one strategy: they are checked as one.
class Agreement {
 public:
  explicit Agreement(const YamlNode& node) : node_(node) {}

  void add(const Expect& expect) {
    add_rows(expect.out, said_.out, "out");
    add_rows(expect.lse, said_.lse, "lse");
    add_value(expect.empty_rows, said_.empty_rows, "empty_rows");
    add_value(expect.same_bits_as, said_.same_bits_as, "same_bits_as");
    add_value(expect.eager_rows, said_.eager_rows, "eager_rows");
    add_value(expect.error, said_.error, "error");
  }

 private:
  using Rows = std::map<std::int64_t, double>;
  void add_rows(const Rows& rows, Rows& said, const std::string& what) {
    for (const auto& [row, value] : rows) {
      const double known = said.emplace(row, value).first->second;
      if (known == value || (known != known && value != value)) continue;
      disagree(what + " in row " + std::to_string(row));
    }
  }

  template <class Value>
  void add_value(const std::optional<Value>& value, std::optional<Value>& said,
                 const std::string& what) {
    if (!value) return;
    if (said && *said != *value) disagree(what);
    said = value;
  }

  [[noreturn]] void disagree(const std::string& what) {
    refuse(node_, "the steps of this 'together' expect different values of " + what);
  }

  const YamlNode& node_;
  Expect said_;
};

void check_agreement(const YamlNode& node, const Step& step, const StepScope& scope) {
  const auto* together = std::get_if<verb::Together>(&step.verb);
  if (together == nullptr) return;
  for (const std::string& strategy : scope.scenario.strategies) {
    Agreement agreement(node);
    agreement.add(own_expectation_of(step, strategy));
    for (const Step& each : together->steps) agreement.add(own_expectation_of(each, strategy));
  }
}

}  // namespace

void check_expect(const YamlNode& node, const Step& step, const StepScope& scope) {
  check_agreement(node, step, scope);
  check_values(node, step, scope);
}

}  // namespace dcp::reader
