#include "cli/explain_text.hpp"

#include <algorithm>
#include <iomanip>
#include <ostream>
#include <sstream>

#include "cli/explain_slots.hpp"
#include "cli/text_table.hpp"
#include "cli/token_picture.hpp"
#include "core/printable_text.hpp"

namespace dcp {

namespace {

constexpr std::size_t kMostListed = 16;

std::string number(std::int64_t value) { return std::to_string(value); }

std::string plural(std::int64_t count, const std::string& one) {
  return number(count) + " " + one + (count == 1 ? "" : "s");
}

std::string join(const std::vector<std::string>& words, const std::string& between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> dims;
  for (const std::int64_t dim : shape) dims.push_back(number(dim));
  return shape.empty() ? "" : "[" + join(dims, ", ") + "]";
}

std::string error_text(const ErrorReport& error) {
  return "refused, " + error.kind + ": " + printable_text(error.why);
}

// A word, then text beside it, broken where it would pass the last column.
void print_item(std::ostream& out, const std::string& word, const std::string& text) {
  constexpr std::size_t kWidth = 11;
  print_wrapped(out, word + std::string(kWidth - word.size(), ' '), text);
}

std::string model_text(const Scenario& s) {
  const bool is_mla = s.model.attention == Attention::kMla;
  return (s.model.preset.empty() ? "" : s.model.preset + ", ") + (is_mla ? "MLA" : "GQA") + ": " +
         number(s.group_num_heads()) + " query heads of the group" +
         (is_mla ? "" : ", " + plural(s.group_num_kv_heads(), "KV head") + " on every rank") +
         ", query dim " + number(s.model.qk_head_dim()) + ", value dim " +
         number(s.model.v_head_dim()) + ", " + plural(s.layers, "layer") + ", " +
         std::string(name(s.dtype)) + "; lse base " + (s.lse.base == LseBase::kTwo ? "2" : "e") +
         " in " + std::string(name(s.lse.dtype));
}

void print_head(std::ostream& out, const Scenario& s, const Explanation& e) {
  out << printable_text(s.file) << '\n';
  if (!s.about.empty()) print_wrapped(out, "", printable_text(s.about));
  out << '\n';
  print_item(out, "group",
             plural(s.world_size, "rank") + ", tensor_parallel_size " +
                 number(s.tensor_parallel_size) + ", each rank keeps " +
                 number(s.group_num_heads() / s.world_size) + " heads after the combine");
  print_item(out, "tokens",
             "interleave " + number(s.interleave) + ": token t lives on rank (t / " +
                 number(s.interleave) + ") mod " + number(s.world_size));
  print_item(out, "model", model_text(s));
  print_item(out, "cache",
             "pages of " + plural(s.kv.block_size, "token") + " in " +
                 std::string(name(s.kv_dtype())) + ", " + number(e.num_blocks) +
                 " for each rank and layer, the first of which is never used");
  print_item(out, "workspace", plural(e.max_num_tokens, "row") + ": " + e.capacity_rule);
  for (const auto& [written, key] : s.aliases_used) {
    print_item(out, "spelling", printable_text(written) + " is " + key);
  }
}

void print_legality(std::ostream& out, const std::vector<LegalityVerdict>& verdicts) {
  const bool legal =
      std::all_of(verdicts.begin(), verdicts.end(), [](const auto& v) { return v.holds; });
  out << "\nvLLM would " << (legal ? "take" : "not take") << " this deployment\n";
  for (const LegalityVerdict& verdict : verdicts) {
    print_wrapped(out, verdict.holds ? "  yes  " : "  NO   ",
                  std::string(verdict.rule) + (verdict.holds ? "" : " (" + verdict.why + ")"));
  }
}

std::string ranks_without_keys(const ExplainedRow& row) {
  std::vector<std::string> empty;
  for (std::size_t rank = 0; rank < row.keys.size(); ++rank) {
    if (row.keys[rank] == 0) empty.push_back(std::to_string(rank));
  }
  if (empty.empty()) return "";
  if (empty.size() == row.keys.size()) return "empty on every rank";
  return "empty on " + join(empty, " ");
}

std::string counts_text(const std::vector<std::int64_t>& counts) {
  std::vector<std::string> words;
  for (const std::int64_t count : counts) words.push_back(number(count));
  const std::string text = join(words, " ");
  constexpr std::size_t kMostWidth = 36;
  if (text.size() <= kMostWidth) return text;
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  return number(*least) + " to " + number(*most);
}

template <class Each>
void print_some(std::ostream& out, std::size_t count, bool all, const Each& each) {
  const std::size_t shown = all || count <= kMostListed ? count : kMostListed;
  for (std::size_t i = 0; i < shown; ++i) each(i);
  if (shown < count) out << "  ... " << count - shown << " more with --verbose\n";
}

void print_requests(std::ostream& out, const Scenario& s, const ExplainedBatch& batch, bool all) {
  const BatchLayout& layout = batch.layout;
  const std::int64_t width = tokens_per_digit(layout, s.interleave);
  out << "  who owns which token: one digit is " << plural(width, "token") << " and its rank"
      << (width == 1 ? ", [] are this step's own" : "") << '\n';
  const Shard group{0, s.world_size, s.interleave};
  const auto count = static_cast<std::size_t>(layout.num_requests());
  print_some(out, count, all, [&](std::size_t r) {
    const auto request = static_cast<std::int64_t>(r);
    std::vector<std::int64_t> lengths;
    for (const auto& of_rank : layout.local_seq_lens) lengths.push_back(of_rank[r]);
    if (layout.seq_lens[r] == 0) {
      out << "  request " << r << "  padding, " << plural(layout.query_len(request), "row") << '\n';
      return;
    }
    print_wrapped(out, "  request " + std::to_string(r) + "  ",
                  token_picture(layout, group, request));
    print_wrapped(out, "      ",
                  plural(layout.seq_lens[r], "token") + ", local lengths " + counts_text(lengths));
  });
}

void print_rows(std::ostream& out, const ExplainedBatch& batch, bool all) {
  TextTable table({"row", "request", "position", "keys by rank", ""});
  const std::size_t shown = all ? batch.rows.size() : std::min(batch.rows.size(), kMostListed);
  for (std::size_t i = 0; i < shown; ++i) {
    const ExplainedRow& row = batch.rows[i];
    if (row.request < 0) {
      table.add({std::to_string(i), "padding", "", "", "empty on every rank"});
    } else {
      table.add({std::to_string(i), number(row.request), number(row.position),
                 counts_text(row.keys), ranks_without_keys(row)});
    }
  }
  table.print(out, "  ");
  if (shown < batch.rows.size()) {
    out << "  ... " << batch.rows.size() - shown << " more with --verbose\n";
  }
}

void print_batch(std::ostream& out, const Scenario& s, const ExplainedBatch& batch, bool all) {
  out << "\nbatch " << printable_text(batch.name);
  if (batch.error) {
    out << '\n';
    print_wrapped(out, "  ", error_text(*batch.error));
    return;
  }
  out << ": " << plural(batch.layout.num_requests(), "request") << ", "
      << plural(batch.layout.rows, "row") << '\n';
  print_requests(out, s, batch, all);
  print_rows(out, batch, all);
}

std::string cut_text(const std::vector<Ubatch>& ubatches) {
  std::vector<std::string> parts;
  for (const Ubatch& ubatch : ubatches) {
    parts.push_back(number(ubatch.first_row) + "-" +
                    number(ubatch.first_row + ubatch.num_rows - 1));
  }
  return ubatches.size() < 2 ? "" : ", ubatches of rows " + join(parts, " ");
}

void print_steps(std::ostream& out, const ExplainedStrategy& strategy, const Explanation& e) {
  out << "\nsteps\n";
  for (const ExplainedStep& step : strategy.steps) {
    std::string text = step.verb + " " + printable_text(step.what);
    if (step.error) {
      text += ": " + error_text(*step.error);
    } else if (!step.batch.empty()) {
      const auto batch =
          std::find_if(e.batches.begin(), e.batches.end(),
                       [&](const ExplainedBatch& each) { return each.name == step.batch; });
      const std::int64_t padded = step.rows - batch->layout.rows;
      text += ": " + (step.graph.empty() ? "eager, no graph" : "graph " + step.graph) + ", " +
              plural(step.rows, "row") + (padded > 0 ? ", the last " + number(padded) : "") +
              (padded > 0 ? " padded up" : "") + cut_text(step.ubatches);
    }
    print_wrapped(out, "  " + std::to_string(step.index) + "  ", text);
  }
}

void print_buffers(std::ostream& out, const std::vector<ExplainedBuffer>& buffers) {
  TextTable table({"buffer", "shape", "dtype", "bytes", "lives in"});
  for (const ExplainedBuffer& buffer : buffers) {
    table.add({buffer.name + (buffer.num > 1 ? " x" + number(buffer.num) : ""),
               shape_text(buffer.shape), buffer.dtype,
               number(static_cast<std::int64_t>(buffer.size_bytes)), buffer.lives});
  }
  table.align_right(3);
  table.print(out, "  ");
}

std::size_t total_bytes(const std::vector<ExplainedBuffer>& buffers) {
  std::size_t sum = 0;
  for (const ExplainedBuffer& buffer : buffers) {
    sum += buffer.size_bytes * static_cast<std::size_t>(buffer.num);
  }
  return sum;
}

void print_ops(std::ostream& out, const ExplainedGraph& graph) {
  out << "  launches of " << printable_text(graph.name) << " on each rank, one replay\n";
  TextTable table({"op", "stream", "times", "bytes sent"});
  for (const ExplainedOp& op : graph.ops) {
    table.add({op.name, op.stream, number(op.count),
               op.egress_bytes == 0 ? "" : std::to_string(op.egress_bytes)});
  }
  table.align_right(2);
  table.align_right(3);
  table.print(out, "  ");
}

void print_graphs(std::ostream& out, const std::vector<ExplainedGraph>& graphs) {
  const bool gathers_kv = std::any_of(graphs.begin(), graphs.end(),
                                      [](const auto& graph) { return graph.kv_bytes > 0; });
  std::vector<std::string> head = {"graph",        "rows",        "ops",          "edges",
                                   "buffer bytes", "sent: query", "sent: combine"};
  if (gathers_kv) head.push_back("sent: kv_gather");
  TextTable table(head);
  for (std::size_t column = 1; column < head.size(); ++column) table.align_right(column);
  for (const ExplainedGraph& graph : graphs) {
    std::int64_t num_ops = 0;
    for (const ExplainedOp& op : graph.ops) num_ops += op.count;
    std::vector<std::string> row = {printable_text(graph.name),
                                    number(graph.rows),
                                    number(num_ops),
                                    std::to_string(graph.num_edges),
                                    std::to_string(total_bytes(graph.buffers)),
                                    std::to_string(graph.query_bytes),
                                    std::to_string(graph.combine_bytes)};
    if (gathers_kv) row.push_back(std::to_string(graph.kv_bytes));
    table.add(row);
  }
  table.print(out, "  ");
}

void print_strategy(std::ostream& out, const ExplainedStrategy& strategy, bool all) {
  out << "\nstrategy " << strategy.name << ": " << strategy.about << '\n';
  if (strategy.error) {
    print_wrapped(out, "  ", error_text(*strategy.error));
    return;
  }
  out << "  each rank ends with " << (strategy.keeps_all_heads ? "all heads" : "its own heads")
      << "; what follows is one rank's, bytes and launches of a whole step\n";
  if (strategy.graphs.empty()) {
    out << "  no graph is captured\n";
    return;
  }
  print_graphs(out, strategy.graphs);
  const auto largest =
      std::max_element(strategy.graphs.begin(), strategy.graphs.end(),
                       [](const auto& a, const auto& b) { return a.rows < b.rows; });
  for (const ExplainedGraph& graph : strategy.graphs) {
    if (!all && &graph != &*largest) continue;
    print_ops(out, graph);
    print_slots(out, graph);
    out << "  buffers of " << printable_text(graph.name) << '\n';
    print_buffers(out, graph.buffers);
  }
}

}  // namespace

void print_explanation(std::ostream& out, const Scenario& scenario, const Explanation& explanation,
                       bool all) {
  print_head(out, scenario, explanation);
  print_legality(out, explanation.legality);
  for (const ExplainedBatch& batch : explanation.batches) print_batch(out, scenario, batch, all);
  if (explanation.strategies.empty()) return;
  print_steps(out, explanation.strategies.front(), explanation);
  out << "\npersistent inputs of each rank, " << total_bytes(explanation.strategies.front().inputs)
      << " bytes; graphs hold their addresses\n";
  print_buffers(out, explanation.strategies.front().inputs);
  for (const ExplainedStrategy& strategy : explanation.strategies) {
    print_strategy(out, strategy, all);
  }
}

}  // namespace dcp
