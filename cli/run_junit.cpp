#include "cli/run_junit.hpp"

#include <algorithm>
#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <filesystem>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "harness/expectation.hpp"

namespace dcp {

namespace {

using boost::property_tree::ptree;

constexpr const char* kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Bytes that are no UTF-8, control characters and U+FFFE and U+FFFF are not text of XML 1.0.
std::string xml_text(const std::string& text) {
  using nlohmann::json;
  const std::string quoted = json(text).dump(-1, ' ', false, json::error_handler_t::replace);
  const auto utf8 = json::parse(quoted).get<std::string>();
  std::string clean;
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto byte = static_cast<unsigned char>(utf8[i]);
    const std::string_view character = std::string_view(utf8).substr(i, 3);
    if (character == "\xEF\xBF\xBE" || character == "\xEF\xBF\xBF") {
      clean += kReplacement;
      i += 2;
    } else if (byte < 0x20 && byte != '\n' && byte != '\t') {
      clean += kReplacement;
    } else {
      clean += utf8[i];
    }
  }
  return clean;
}

void set(ptree& element, const char* attribute, const std::string& value) {
  element.put(std::string("<xmlattr>.") + attribute, xml_text(value));
}

std::string seconds_text(double seconds) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(6) << seconds;
  return text.str();
}

struct Counts {
  int tests = 0;
  int failures = 0;
  int errors = 0;
  double seconds = 0;

  void add(const Counts& other) {
    tests += other.tests;
    failures += other.failures;
    errors += other.errors;
    seconds += other.seconds;
  }
  void put_into(ptree& element) const {
    set(element, "tests", std::to_string(tests));
    set(element, "failures", std::to_string(failures));
    set(element, "errors", std::to_string(errors));
    set(element, "time", seconds_text(seconds));
  }
};

// "scenarios/basic/x.yaml" -> "scenarios.basic.x": CI servers group by what is before the dots.
std::string class_name(const std::string& file) {
  std::string text = std::filesystem::path(file).replace_extension().string();
  text.erase(0, text.find_first_not_of("./"));
  std::replace(text.begin(), text.end(), '/', '.');
  return text;
}

ptree finding(const std::string& type, const std::string& message, const std::string& text) {
  ptree element;
  set(element, "type", type);
  set(element, "message", message);
  element.data() = xml_text(text);
  return element;
}

ptree test_case(const ScenarioReport& report, const std::string& what, double seconds) {
  ptree element;
  set(element, "classname", class_name(report.file));
  set(element, "name", report.strategy + ": " + what);
  set(element, "time", seconds_text(seconds));
  return element;
}

ptree step_case(const ScenarioReport& report, const StepReport& step) {
  const std::string what = "step " + std::to_string(step.index) + " " + step.verb +
                           (step.what.empty() ? "" : " " + step.what) +
                           (step.name.empty() ? "" : " (" + step.name + ")");
  ptree element = test_case(report, what, step.seconds);
  std::string hazards;
  for (const audit::Finding& hazard : step.hazards) hazards += hazard_text(hazard) + "\n";
  if (!hazards.empty()) element.put("system-out", xml_text(hazards));
  if (step.problems.empty()) return element;
  std::string all = step.place.text() + "\n";
  for (const std::string& problem : step.problems) all += problem + "\n";
  element.add_child("failure", finding("unexpected", step.problems.front(), all));
  return element;
}

Counts add_cases(ptree& suite, const ScenarioReport& report) {
  Counts counts{.seconds = report.seconds};
  for (const StepReport& step : report.steps) {
    suite.add_child("testcase", step_case(report, step));
    ++counts.tests;
    counts.failures += !step.problems.empty();
  }
  if (report.bad_input.empty()) return counts;
  ptree refused = test_case(report, "input", 0);
  refused.add_child("error", finding("bad_input", report.bad_input, report.bad_input));
  suite.add_child("testcase", refused);
  ++counts.tests;
  ++counts.errors;
  return counts;
}

}  // namespace

std::string junit_xml(std::span<const ScenarioReport> reports) {
  ptree suites;
  Counts total;
  while (!reports.empty()) {
    const std::string& file = reports.front().file;
    ptree cases;
    Counts counts;
    for (; !reports.empty() && reports.front().file == file; reports = reports.subspan(1)) {
      counts.add(add_cases(cases, reports.front()));
    }
    ptree suite;
    set(suite, "name", file);
    counts.put_into(suite);
    suite.insert(suite.end(), cases.begin(), cases.end());
    suites.add_child("testsuite", suite);
    total.add(counts);
  }
  ptree document;
  set(document, "name", "dcpsim");
  total.put_into(document);
  document.insert(document.end(), suites.begin(), suites.end());
  ptree root;
  root.add_child("testsuites", document);
  std::ostringstream text;
  write_xml(text, root, boost::property_tree::xml_writer_settings<std::string>(' ', 2, "UTF-8"));
  return text.str();
}

}  // namespace dcp
