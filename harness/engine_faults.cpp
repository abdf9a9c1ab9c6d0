#include "harness/engine_faults.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "harness/dump_rows.hpp"
#include "harness/partials_check.hpp"
#include "harness/weight_faults.hpp"
#include "reference/combine.hpp"

namespace dcp {

namespace {

constexpr int kMaxPermutedRanks = 6;  // up to here every order is tried: 720

std::string base_text(LseBase base) { return base == LseBase::kTwo ? "2" : "e"; }

LseBase other(LseBase base) { return base == LseBase::kTwo ? LseBase::kE : LseBase::kTwo; }

std::string order_text(const std::vector<int>& order) {
  std::string text = "[";
  for (const int rank : order) text += (text.size() > 1 ? ", " : "") + std::to_string(rank);
  return text + "]";
}

// Every order but the right one; for many ranks those of usual mistakes: rotated, reversed, two
// ranks swapped.
std::vector<std::vector<int>> wrong_orders(int world_size) {
  std::vector<int> right(static_cast<std::size_t>(world_size));
  std::iota(right.begin(), right.end(), 0);
  std::vector<std::vector<int>> orders;
  std::vector<int> order = right;
  if (world_size <= kMaxPermutedRanks) {
    while (std::next_permutation(order.begin(), order.end())) orders.push_back(order);
    return orders;
  }
  for (int shift = 1; shift < world_size; ++shift) {
    std::rotate(order.begin(), order.begin() + 1, order.end());
    orders.push_back(order);
  }
  orders.emplace_back(right.rbegin(), right.rend());
  for (int a = 0; a < world_size; ++a) {
    for (int b = a + 1; b < world_size; ++b) {
      order = right;
      std::swap(order[static_cast<std::size_t>(a)], order[static_cast<std::size_t>(b)]);
      orders.push_back(order);
    }
  }
  return orders;
}

class Faults {
 public:
  explicit Faults(const EngineDump& dump) : dump_(dump), rows_(dump) {}

  std::vector<EngineFault> all() {
    add_bases();
    add_masks();
    add_empty_lse();
    add_lse_layouts();
    add_weight_faults(dump_, faults_);
    add_orders();
    return std::move(faults_);
  }

 private:
  const PartialsCase& partials() const { return dump_.partials; }
  LseBase base() const { return partials().lse.base; }

  void add(std::string_view name, std::string text,
           std::function<PredictedRow(std::int64_t, int)> predict) {
    faults_.push_back({name, std::move(text), std::move(predict)});
  }

  void add_bases() {
    add("wrong_base",
        "the lse, in base " + base_text(base()) + ", was taken for base " +
            base_text(other(base())),
        [rows = rows_, base = other(base())](std::int64_t row, int head) {
          return predicted(combine(rows.lse(row, head), rows.outs(row, head), base));
        });
    add("wrong_base", "the lse was returned in base " + base_text(other(base())),
        [this_base = base(), rows = rows_](std::int64_t row, int head) {
          PredictedRow result =
              predicted(combine(rows.lse(row, head), rows.outs(row, head), this_base));
          result.lse *= log_of(this_base) / log_of(other(this_base));
          return result;
        });
  }

  void add_masks() {
    if (!partials().query_start_loc) return;
    const auto add_mask = [&](std::string_view name, std::string text, auto is_masked) {
      add(name, std::move(text), [rows = rows_, is_masked](std::int64_t row, int head) {
        const auto lse = rows.lse(row, head, [&](int rank) { return is_masked(rank, row); });
        return predicted(combine(lse, rows.outs(row, head), rows.partials().lse.base));
      });
    };
    add_mask("mask_missing", "no row was masked", [](int, std::int64_t) { return false; });
    if (dump_.masks_rows) {
      add_mask(
          "mask_by_request",
          "rows were masked by request: those without a key in a request that has some were not",
          [this_dump = &dump_](int rank, std::int64_t row) {
            return is_masked_by_request(this_dump->partials, rank, row);
          });
    }
    // One token per request is assumed: row i is masked by the length of request i.
    for (const bool mask_tail : {false, true}) {
      add_mask("mask_by_row_number",
               std::string("row i was masked by seq_lens[i], as if every request had one row") +
                   (mask_tail ? ", and rows past the requests were masked" : ""),
               [this_dump = &dump_, mask_tail](int rank, std::int64_t row) {
                 const auto& lengths =
                     this_dump->partials.ranks[static_cast<std::size_t>(rank)].seq_lens;
                 const auto index = static_cast<std::size_t>(row);
                 return index < lengths.size() ? lengths[index] == 0 : mask_tail;
               });
    }
  }

  void add_empty_lse() {
    for (const bool zero_out : {false, true}) {
      add("empty_lse_zero",
          std::string("the lse of an empty row was taken as 0") +
              (zero_out ? ", its out as 0" : ", its out as it is"),
          [rows = rows_, zero_out](std::int64_t row, int head) {
            Eigen::ArrayXd lse = rows.lse(row, head);
            Eigen::ArrayXXd outs = rows.outs(row, head);
            for (Eigen::Index rank = 0; rank < lse.size(); ++rank) {
              if (std::isfinite(lse[rank])) continue;
              lse[rank] = 0;
              if (zero_out) outs.col(rank).setZero();
            }
            return predicted(combine(lse, outs, rows.partials().lse.base));
          });
    }
  }

  void add_lse_layouts() {
    add("lse_transposed", "partial_lse was read as [H, T]",
        [this_dump = &dump_, rows = rows_](std::int64_t row, int head) {
          const PartialsCase& partials = this_dump->partials;
          const std::int64_t index = head * partials.num_tokens + row;
          const auto stored_head = static_cast<int>(index % partials.num_heads);
          const std::int64_t stored_row = index / partials.num_heads;
          Eigen::ArrayXd lse(partials.world_size);
          for (int rank = 0; rank < partials.world_size; ++rank) {
            lse[rank] = rows.is_masked(rank, row) ? DumpRows::kEmpty
                                                  : partials.lse_at(rank, stored_row, stored_head);
          }
          return predicted(combine(lse, rows.outs(row, head), partials.lse.base));
        });
    if (partials().dtype == DType::kFp32) return;  // one lane
    add("lanes_swapped", "the two 16-bit lanes of the packed lse were swapped",
        [rows = rows_](std::int64_t row, int head) {
          Eigen::ArrayXd lse = rows.lse(row, head);
          for (double& value : lse) {
            value = std::bit_cast<float>(
                std::rotl(std::bit_cast<std::uint32_t>(static_cast<float>(value)), 16));
          }
          return predicted(combine(lse, rows.outs(row, head), rows.partials().lse.base));
        });
  }

  void add_orders() {
    for (const std::vector<int>& order : wrong_orders(partials().world_size)) {
      add_order(order);
    }
  }

  void add_order(const std::vector<int>& order) {
    const auto at = [order](int rank) { return order[static_cast<std::size_t>(rank)]; };
    add("ranks_permuted",
        "out of ranks 0, 1, ... was weighted with the lse of ranks " + order_text(order),
        [rows = rows_, at](std::int64_t row, int head) {
          const Eigen::ArrayXd right = rows.lse(row, head);
          Eigen::ArrayXd lse = right;
          for (int rank = 0; rank < lse.size(); ++rank) lse[rank] = right[at(rank)];
          return predicted(combine(lse, rows.outs(row, head), rows.partials().lse.base));
        });
    if (partials().query_start_loc) {
      add("ranks_permuted",
          "ranks 0, 1, ... were masked with the seq_lens of ranks " + order_text(order),
          [rows = rows_, at](std::int64_t row, int head) {
            const auto lse =
                rows.lse(row, head, [&](int rank) { return rows.is_masked(at(rank), row); });
            return predicted(combine(lse, rows.outs(row, head), rows.partials().lse.base));
          });
    }
    add("ranks_permuted", "the heads of ranks 0, 1, ... are those of ranks " + order_text(order),
        [rows = rows_, at](std::int64_t row, int head) {
          const int kept = rows.partials().heads_per_rank();
          const int other_head = at(head / kept) * kept + head % kept;
          return predicted(combine(rows.lse(row, other_head), rows.outs(row, other_head),
                                   rows.partials().lse.base));
        });
  }

  const EngineDump& dump_;
  DumpRows rows_;
  std::vector<EngineFault> faults_;
};

}  // namespace

std::vector<EngineFault> engine_faults(const EngineDump& dump) { return Faults(dump).all(); }

}  // namespace dcp
