#include "cli/command_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "core/error.hpp"

namespace dcp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

int do_nothing(const Options&) { return 0; }

constexpr std::string_view kRefused[] = {"set", "dump"};
constexpr std::array kCommands = {
    Command{"run", "runs scenarios", true, do_nothing},
    Command{"check", "checks vectors", true, do_nothing, kRefused},
    Command{"doctor", "looks around", false, do_nothing},
};
constexpr std::array<std::string_view, 3> kStrategies = {"a2a", "ag_ar", "ag_rs"};

Options parse(const std::vector<std::string>& arguments) {
  return parse_command_line(arguments, kCommands, kStrategies);
}

// "run" on a path that exists, with further arguments.
Options parse_run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"run", DCPSIM_SOURCE_DIR});
  return parse(arguments);
}

std::string message_of(const auto& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

std::string refusal(const std::vector<std::string>& arguments) {
  return message_of([&] { parse(arguments); });
}

std::string run_refusal(const std::vector<std::string>& arguments) {
  return message_of([&] { parse_run(arguments); });
}

TEST(CommandLine, PathsFollowTheCommandAndOptionsMayStandAnywhere) {
  const Options options = parse({"--seed", "5", "run", DCPSIM_SOURCE_DIR, "--verbose", "/"});
  EXPECT_EQ(options.command, &kCommands[0]);
  EXPECT_THAT(options.paths, ElementsAre(DCPSIM_SOURCE_DIR, "/"));
  EXPECT_EQ(options.seed, 5u);
  EXPECT_TRUE(options.verbose);
}

TEST(CommandLine, DefaultsLeaveTheScenarioAsItIs) {
  const Options options = parse_run({});
  EXPECT_EQ(options.backend, BackendChoice{});
  EXPECT_THAT(options.strategies, IsEmpty());
  EXPECT_THAT(options.overrides, IsEmpty());
  EXPECT_FALSE(options.seed.has_value());
  EXPECT_EQ(options.json_path, "");
  EXPECT_EQ(options.filter, "");
  EXPECT_GE(options.jobs, 1);
  EXPECT_FALSE(options.verbose);
}

TEST(CommandLine, ReportsGoWhereTheyAreAsked) {
  const Options options = parse_run({"--json", "a", "--junit", "b", "--trace", "c", "--dump", "d"});
  EXPECT_EQ(options.json_path, "a");
  EXPECT_EQ(options.junit_path, "b");
  EXPECT_EQ(options.trace_path, "c");
  EXPECT_EQ(options.dump_path, "d");
}

TEST(CommandLine, TwoReportsInOnePlaceAreRefused) {
  EXPECT_EQ(run_refusal({"--json", "x", "--junit", "x"}),
            "dcpsim: error: '--json' and '--junit' name the same place: 'x'");
  EXPECT_EQ(run_refusal({"--dump", "x", "--trace", "x"}),
            "dcpsim: error: '--trace' and '--dump' name the same place: 'x'");
  EXPECT_EQ(run_refusal({"--dump", ""}), "dcpsim: error: '--dump' needs a name");
}

TEST(CommandLine, ACommandMayRefuseScenarioOptions) {
  EXPECT_EQ(refusal({"check", DCPSIM_SOURCE_DIR, "--set", "a=1"}),
            "dcpsim: error: '--set' does not apply to 'check'");
  EXPECT_EQ(refusal({"check", DCPSIM_SOURCE_DIR, "--dump", "x"}),
            "dcpsim: error: '--dump' does not apply to 'check'");
  EXPECT_EQ(refusal({"check", DCPSIM_SOURCE_DIR, "--seed", "3"}), "no error");
}

TEST(CommandLine, StrategiesAreSplitAtCommasAndNamedOnce) {
  EXPECT_THAT(parse_run({"--strategy", "ag_rs,a2a", "--strategy=ag_rs"}).strategies,
              ElementsAre("ag_rs", "a2a"));
  EXPECT_THAT(parse_run({"--strategy", "ag_ar,all"}).strategies,
              ElementsAre("ag_ar", "a2a", "ag_rs"));
}

TEST(CommandLine, UnknownStrategyIsRefusedWithTheNearestName) {
  EXPECT_EQ(run_refusal({"--strategy", "ag_rz"}),
            "dcpsim: error: unknown value 'ag_rz' of '--strategy' (did you mean 'ag_rs'?)");
  EXPECT_THAT(run_refusal({"--strategy", "a2a,"}), HasSubstr("unknown value '' of '--strategy'"));
}

TEST(CommandLine, SetKeepsOrderAndSplitsAtTheFirstEqualsSign) {
  const auto overrides = parse_run({"--set", "graph.ubatches=2", "--set=about=a=b"}).overrides;
  ASSERT_EQ(overrides.size(), 2u);
  EXPECT_EQ(overrides[0].key, "graph.ubatches");
  EXPECT_EQ(overrides[0].value, "2");
  EXPECT_EQ(overrides[1].key, "about");
  EXPECT_EQ(overrides[1].value, "a=b");
  EXPECT_EQ(run_refusal({"--set", "layers"}),
            "dcpsim: error: '--set' takes KEY=VALUE, not 'layers'");
  EXPECT_THAT(run_refusal({"--set", "=3"}), HasSubstr("'--set' takes KEY=VALUE"));
}

TEST(CommandLine, NumbersAreWholeAndInRange) {
  EXPECT_EQ(parse_run({"--seed", "18446744073709551615"}).seed, 18446744073709551615u);
  EXPECT_EQ(parse_run({"--jobs", "3"}).jobs, 3);
  for (const char* bad : {"-1", "1.5", "0x10", "18446744073709551616", ""}) {
    EXPECT_THAT(run_refusal({std::string("--seed=") + bad}), HasSubstr("'--seed'")) << bad;
  }
  EXPECT_THAT(run_refusal({"--jobs", "99999999999"}), HasSubstr("from 1 to 2147483647"));
  EXPECT_EQ(run_refusal({"--jobs", "0"}),
            "dcpsim: error: '--jobs' takes a whole number from 1 to 2147483647, not '0'");
}

TEST(CommandLine, APatternOrNameThatIsEmptyIsRefused) {
  EXPECT_EQ(run_refusal({"--filter", ""}), "dcpsim: error: '--filter' needs a pattern");
  EXPECT_EQ(refusal({"run", "--graph", ""}), "dcpsim: error: '--graph' needs a name");
}

TEST(CommandLine, PrefixOfAnOptionIsNotThatOption) {
  EXPECT_THAT(run_refusal({"--verb"}), HasSubstr("unknown option '--verb'"));
  EXPECT_EQ(run_refusal({"--sede", "5"}),
            "dcpsim: error: unknown option '--sede' (did you mean '--seed'?)");
  EXPECT_EQ(run_refusal({"--sede=5"}),
            "dcpsim: error: unknown option '--sede' (did you mean '--seed'?)");
}

TEST(CommandLine, RepeatedOptionIsRefused) {
  EXPECT_THAT(run_refusal({"--seed", "1", "--seed", "2"}), HasSubstr("'--seed'"));
}

TEST(CommandLine, UnknownCommandIsRefusedWithTheNearestName) {
  EXPECT_THAT(refusal({"doktor"}), HasSubstr("unknown command 'doktor' (did you mean 'doctor'?)"));
  EXPECT_THAT(refusal({"serve"}), HasSubstr("unknown command 'serve'; "));
  EXPECT_THAT(refusal({}), HasSubstr("no command"));
}

TEST(CommandLine, BackendsThatThisBuildLacksAreRefused) {
  EXPECT_EQ(parse_run({"--backend", "host"}).backend, BackendChoice{});
  std::string why;
  if (!has_backend({.backend = Backend::kCuda}, why)) {
    EXPECT_THAT(run_refusal({"--backend", "cuda"}), HasSubstr(why));
  }
  EXPECT_THAT(run_refusal({"--backend", "hots"}), HasSubstr("(did you mean 'host'?)"));
  EXPECT_THAT(run_refusal({"--comm", "nccl"}), HasSubstr("'--comm' needs '--backend cuda'"));
  EXPECT_THAT(run_refusal({"--wait-bound", "500"}),
              HasSubstr("'--wait-bound' needs '--backend cuda'"));
  EXPECT_THAT(run_refusal({"--backend", "cuda", "--wait-bound", "0"}),
              HasSubstr("'--wait-bound' takes a whole number from 1 to 2147483647, not '0'"));
  EXPECT_THAT(run_refusal({"--comm", "ncll"}), HasSubstr("(did you mean 'nccl'?)"));
}

TEST(CommandLine, PathsAreRequiredWhereACommandReadsThemAndRefusedElsewhere) {
  EXPECT_THAT(refusal({"run"}), HasSubstr("'run' needs a PATH"));
  EXPECT_THAT(refusal({"run", "no/such.yaml"}),
              HasSubstr("no such file or folder: 'no/such.yaml'"));
  EXPECT_THAT(refusal({"doctor", "/"}), HasSubstr("'doctor' takes no PATH, but got '/'"));
}

TEST(CommandLine, ScenarioOptionsDoNotApplyToOtherCommands) {
  EXPECT_EQ(refusal({"doctor", "--seed", "1"}),
            "dcpsim: error: '--seed' does not apply to 'doctor'");
  EXPECT_EQ(parse({"doctor", "--json", "x.json"}).json_path, "x.json");
}

TEST(CommandLine, HelpAndVersionNeedNoCommand) {
  EXPECT_TRUE(parse({"--help"}).show_help);
  EXPECT_TRUE(parse({"-h"}).show_help);
  EXPECT_TRUE(parse({"run", "--help"}).show_help);
  EXPECT_TRUE(parse({"--version"}).show_version);
}

TEST(CommandLine, HelpNamesEveryCommandAndOption) {
  const std::string text = help_text(kCommands);
  for (const char* word :
       {"run PATH...", "doctor", "--backend", "--comm", "--wait-bound", "--strategy", "--set",
        "--seed", "--json", "--jobs", "--filter", "--no-color", "--verbose"}) {
    EXPECT_THAT(text, HasSubstr(word));
  }
  EXPECT_THAT(text, Not(HasSubstr("doctor PATH")));
}

TEST(CommandLine, ColorGoesToTerminalsThatDoNotForbidIt) {
  EXPECT_TRUE(wants_color(false, nullptr, true));
  EXPECT_TRUE(wants_color(false, "", true));
  EXPECT_FALSE(wants_color(true, nullptr, true));
  EXPECT_FALSE(wants_color(false, "1", true));
  EXPECT_FALSE(wants_color(false, nullptr, false));
}

}  // namespace
}  // namespace dcp
