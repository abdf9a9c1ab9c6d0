#include "harness/audit/result_audit.hpp"

#include <algorithm>
#include <cstring>

#include "core/poison.hpp"
#include "harness/audit/agreement.hpp"
#include "harness/empty_rows.hpp"
#include "harness/expectation.hpp"

namespace dcp {

namespace {

audit::Finding finding_of(std::string_view kind, const StepRun& run, int rank) {
  return {.kind = std::string(kind),
          .graph = run.step->name == "eager" ? "" : run.step->name,
          .rank = rank};
}

bool is_poison(const std::byte* data, std::size_t size_bytes) {
  for (std::size_t i = 0; i + sizeof(kPoison) <= size_bytes; i += sizeof(kPoison)) {
    if (std::memcmp(data + i, &kPoison, sizeof(kPoison)) != 0) return false;
  }
  return size_bytes >= sizeof(kPoison);
}

// Looks at the first bytes before it reads them all.
bool is_untouched(Runtime& runtime, const void* data, std::size_t size_bytes) {
  std::byte first[sizeof(kPoison)];
  if (size_bytes < sizeof(first)) return false;
  runtime.read(first, data, sizeof(first));
  if (!is_poison(first, sizeof(first))) return false;
  std::vector<std::byte> bytes(size_bytes);
  runtime.read(bytes.data(), data, size_bytes);
  return is_poison(bytes.data(), bytes.size());
}

// Rows of the step that a buffer of a ubatch holds and that are untouched in every layer.
std::vector<std::int64_t> untouched_rows(Runtime& runtime, const StepRun& run, int rank,
                                         std::size_t ubatch, std::string_view name) {
  const UbatchStep& step = run.step->ranks[static_cast<std::size_t>(rank)].ubatches[ubatch];
  const Buffer* buffer = step.buffers.find(name);
  std::vector<std::int64_t> rows;
  const auto count = static_cast<std::size_t>(step.shape.num_tokens);
  const auto layers = static_cast<std::size_t>(step.shape.layers);
  if (buffer == nullptr || count == 0 || buffer->size_bytes < count * layers) return rows;
  const std::size_t row_bytes = buffer->size_bytes / (count * layers);
  for (std::size_t row = 0; row < count; ++row) {
    bool untouched = true;
    for (std::size_t layer = 0; layer < layers && untouched; ++layer) {
      untouched =
          is_untouched(runtime, buffer->data + (layer * count + row) * row_bytes, row_bytes);
    }
    if (!untouched) continue;
    rows.push_back(run.step->ubatches[ubatch].first_row + static_cast<std::int64_t>(row));
  }
  return rows;
}

// Rows without keys may be as they were: check_partials knows which.
bool is_left_by_attention(std::string_view name) {
  return name.starts_with("partial_") || name.starts_with("new_");
}

// Whether the poison may have come from where it is in order: inputs hold it in rows without
// tokens, and partials, which may be sent as they are, in rows without keys.
bool may_be_moved(Runtime& runtime, const audit::GraphUses& uses, const audit::Use& read) {
  for (const audit::Use& writer : uses.all()) {
    const bool overlaps = writer.access->writes() && writer.access->address < read.access->end() &&
                          read.access->address < writer.access->end();
    if (!overlaps) continue;
    for (const audit::Use& source : uses.all()) {
      if (source.node != writer.node || !source.access->reads()) continue;
      const audit::Binding* binding = uses.binding_of(source);
      if (binding == nullptr) continue;
      const bool may_hold_poison =
          binding->role == audit::Role::kInput || is_left_by_attention(binding->name);
      if (!may_hold_poison) continue;
      const void* data = reinterpret_cast<const void*>(source.access->address);
      if (is_untouched(runtime, data, source.access->size_bytes)) return true;
    }
  }
  return false;
}

}  // namespace

audit::Findings ResultAudit::look(World& world, Engine& engine, const RunAudit& graphs,
                                  const StepRun& run) {
  std::vector<RankResult> results(static_cast<std::size_t>(world.world_size()));
  before_.resize(results.size());
  world.each_rank([&](Rank& rank) {
    if (!std::binary_search(run.ranks.begin(), run.ranks.end(), rank.index)) return;
    RankResult& mine = results[static_cast<std::size_t>(rank.index)];
    check_metadata(engine, run, rank, mine);
    if (!mine.found.empty()) return;  // what follows from wrong metadata has that one cause
    check_outputs(run, rank, mine.found);
    if (mine.found.empty()) check_partials(run, rank, mine.found);
    if (mine.found.empty()) check_reads(graphs, run, rank, mine.found);
  });
  audit::Findings found;
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    found.insert(found.end(), results[rank].found.begin(), results[rank].found.end());
    if (!results[rank].metadata.empty()) before_[rank] = std::move(results[rank].metadata);
  }
  if (!any_process(world, !found.empty())) check_values(engine, run, found);
  return found;
}

void ResultAudit::check_outputs(const StepRun& run, Rank& rank, audit::Findings& found) const {
  for (std::size_t u = 0; u < run.step->ubatches.size(); ++u) {
    for (const char* name : {"out", "lse"}) {
      const auto rows = untouched_rows(rank.runtime, run, rank.index, u, name);
      if (rows.empty()) continue;
      audit::Finding finding = finding_of("unwritten_output", run, rank.index);
      finding.buffer = name;
      finding.ubatch = static_cast<int>(u);
      finding.why = "the step wrote nothing into rows " + list_text(rows) + " of " + name;
      finding.advice = "whoever reads them finds an earlier step: write every row in every launch";
      found.push_back(std::move(finding));
      return;
    }
  }
}

void ResultAudit::check_partials(const StepRun& run, Rank& rank, audit::Findings& found) const {
  const auto empty = empty_rows_of(scenario_, run, rank.index);
  const auto num_filled = static_cast<std::size_t>(run.step->rows) - empty.size();
  for (std::size_t u = 0; u < run.step->ubatches.size(); ++u) {
    auto rows = untouched_rows(rank.runtime, run, rank.index, u, "partial_lse");
    std::erase_if(rows, [&](std::int64_t row) {
      return std::binary_search(empty.begin(), empty.end(), row);
    });
    if (rows.empty()) continue;
    const bool all = rows.size() == num_filled;
    audit::Finding finding =
        finding_of(all ? "uninit_read" : "unwritten_row_read", run, rank.index);
    finding.buffer = "partial_lse";
    finding.ubatch = static_cast<int>(u);
    finding.why =
        "attention left rows " + list_text(rows) +
        " of its partial as they were, although they have keys, and the combine read them";
    finding.advice = "let attention write every row that it does not declare empty";
    found.push_back(std::move(finding));
    return;
  }
}

// The first node that reads memory in which nothing was written since the launch.
void ResultAudit::check_reads(const RunAudit& graphs, const StepRun& run, Rank& rank,
                              audit::Findings& found) const {
  const audit::GraphUses* uses = graphs.uses_of(run.step->name, rank.index);
  const auto& lengths = run.layout.seq_lens;
  const bool has_tokens =
      std::any_of(lengths.begin(), lengths.end(), [](auto length) { return length > 0; });
  if (!has_tokens) return;                             // every input is poison
  if (uses == nullptr || run.copy != nullptr) return;  // a copy has not what lay between
  for (const audit::Use& use : uses->all()) {
    if (!use.access->reads()) continue;
    const audit::Binding* binding = uses->binding_of(use);
    const bool is_scratch = binding != nullptr && binding->role == audit::Role::kScratch;
    if (!is_scratch || is_left_by_attention(binding->name)) continue;
    const void* data = reinterpret_cast<const void*>(use.access->address);
    if (!is_untouched(rank.runtime, data, use.access->size_bytes)) continue;
    if (may_be_moved(rank.runtime, *uses, use)) continue;
    audit::Finding finding = finding_of("uninit_read", run, rank.index);
    finding.node = uses->nodes()[static_cast<std::size_t>(use.node)].op;
    finding.node_index = use.node;
    finding.argument = use.access->argument;
    finding.buffer = binding->name;
    finding.ubatch = binding->ubatch;
    finding.why = finding.node + " read " + std::to_string(use.access->size_bytes) + " bytes of " +
                  finding.buffer + " that nothing had written since the launch began";
    finding.advice = "run the operation that writes the buffer in every launch";
    found.push_back(std::move(finding));
    return;
  }
}

}  // namespace dcp
