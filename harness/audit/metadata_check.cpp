// Metadata as the device holds it, against what belongs to the batch.
#include <algorithm>

#include "harness/audit/result_audit.hpp"

namespace dcp {

namespace {

struct Difference {
  std::string_view kind;
  std::string why;
  std::string_view advice;
};

std::string entry_text(const MetadataArray& array, std::size_t at) {
  return "entry " + std::to_string(at) + " of " + array.name + " is " +
         std::to_string(array.found[at]) + ", the batch's is " + std::to_string(array.expected[at]);
}

// What a wrong entry means: a value of the batch before, a slot or page of nobody, or an earlier
// step's tail.
Difference difference_of(const MetadataArray& array, std::size_t at,
                         const std::vector<std::int64_t>& before) {
  if (at >= array.batch_size) {
    return {"stale_tail",
            entry_text(array, at) + ": it lies past the batch, whose " +
                std::to_string(array.batch_size) + " entries come before it",
            "reset the tail of every metadata buffer with each batch"};
  }
  if (array.found == before || array.found[at] == (at < before.size() ? before[at] : -2)) {
    return {"stale_derived_metadata",
            entry_text(array, at) + ": it was derived from an earlier batch",
            "derive it again whenever lengths, boundaries or pages change"};
  }
  if (array.name == "slot_mapping") {
    return {"write_to_reserved_slot",
            entry_text(array, at) + ": the row writes into a slot that its request does not own",
            "give padding slot -1 and every token a slot of its request's pages"};
  }
  if (array.name == "block_table") {
    return {"use_after_free",
            entry_text(array, at) + ": the row reads a page that its request does not own",
            "take a request's pages out of the table when they are given back"};
  }
  return {"stale_derived_metadata", entry_text(array, at),
          "derive it again whenever lengths, boundaries or pages change"};
}

// What an entry past the batch must say to whoever looks at it: no rows, no keys, no slot.
std::int64_t neutral_tail(const MetadataArray& array) {
  if (array.name == "slot_mapping") return -1;
  if (array.name == "empty_ranks") return -1;  // all bits: no rank has a key
  const bool counts_rows = array.name == "query_start_loc" && array.batch_size > 0;
  return counts_rows ? array.expected[array.batch_size - 1] : 0;
}

// Where several arrays differ in several ways, the batch did not get there: one cause.
void merge_causes(audit::Findings& found) {
  const bool is_one_kind = std::all_of(found.begin(), found.end(), [&](const auto& finding) {
    return finding.kind == found.front().kind;
  });
  if (found.size() < 2 || is_one_kind) return;
  audit::Finding merged = found.front();
  merged.kind = "stale_derived_metadata";
  merged.why = "several buffers do not hold the batch";
  for (const audit::Finding& each : found) merged.why += "; " + each.why;
  merged.advice = "load all metadata of a batch before its launch";
  found = {std::move(merged)};
}

}  // namespace

void ResultAudit::check_metadata(const Engine& engine, const StepRun& run, Rank& rank,
                                 RankResult& result) {
  if (run.copy != nullptr) return;
  const auto& before = before_[static_cast<std::size_t>(rank.index)];
  for (MetadataArray& array : engine.metadata_of(run, rank)) {
    std::fill(array.expected.begin() + static_cast<std::ptrdiff_t>(array.batch_size),
              array.expected.end(), neutral_tail(array));
    const std::string key = array.name + " " + std::to_string(array.ubatch);
    result.metadata[key] = array.expected;
    const auto [found, expected] =
        std::mismatch(array.found.begin(), array.found.end(), array.expected.begin());
    if (found == array.found.end()) continue;
    const auto at = static_cast<std::size_t>(found - array.found.begin());
    const auto old = before.find(key);
    const Difference difference =
        difference_of(array, at, old == before.end() ? std::vector<std::int64_t>{} : old->second);
    result.found.push_back({.kind = std::string(difference.kind),
                            .graph = run.step->name == "eager" ? "" : run.step->name,
                            .buffer = array.name,
                            .rank = rank.index,
                            .ubatch = array.ubatch,
                            .why = difference.why,
                            .advice = std::string(difference.advice)});
  }
  merge_causes(result.found);
}

}  // namespace dcp
