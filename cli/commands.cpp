#include "cli/commands.hpp"

#include <array>

#include "cli/audit.hpp"
#include "cli/bench.hpp"
#include "cli/check.hpp"
#include "cli/doctor.hpp"
#include "cli/explain.hpp"
#include "cli/list.hpp"
#include "cli/run.hpp"

namespace dcp {
namespace {

// Options of `audit` alone.
constexpr std::string_view kRefusedByRun[] = {"dot", "html", "graph"};

// A vector file is no scenario: it has no keys, and nothing is captured.
constexpr std::string_view kRefusedByCheck[] = {"set",  "schedule", "junit", "trace",
                                                "dump", "dot",      "html",  "graph"};

// What it shows is of one schedule.
constexpr std::string_view kRefusedByAudit[] = {"jobs", "junit", "trace", "dump"};

// Nothing is run.
constexpr std::string_view kRefusedByExplain[] = {"backend",  "comm", "wait-bound", "seed",
                                                  "schedule", "jobs", "junit",      "trace",
                                                  "dump",     "dot",  "html",       "graph"};

// Of the options of a run only `filter` means something: a glob for kernels.
constexpr std::string_view kRefusedByBench[] = {
    "backend", "comm",  "wait-bound", "strategy", "set", "seed", "schedule",
    "jobs",    "junit", "trace",      "dump",     "dot", "html", "graph"};

constexpr std::array kCommands = {
    Command{"run", "runs scenarios: capture, replay, check", true, run_command, kRefusedByRun},
    Command{"check", "runs stored partials through the strategies and compares", true,
            check_command, kRefusedByCheck},
    Command{"audit", "captured graphs: what is baked in, and the hazards that follow", true,
            audit_command, kRefusedByAudit},
    Command{"explain", "the plan in words: who owns which token, buffers, launches, bytes sent",
            true, explain_command, kRefusedByExplain},
    Command{"bench", "times the combine kernels on a GPU beside ceilings of the same run", false,
            bench_command, kRefusedByBench},
    Command{"list", "strategies, model presets, step verbs, kinds of findings", false,
            list_command},
    Command{"doctor", "what this machine can run, and why not the rest", false, doctor_command},
};

}  // namespace

std::span<const Command> all_commands() { return kCommands; }

}  // namespace dcp
