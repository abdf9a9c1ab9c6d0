#include "harness/engine_dump.hpp"

#include <cstring>

#include "core/sharding.hpp"
#include "harness/dump_rows.hpp"
#include "harness/partials_check.hpp"

namespace dcp {

namespace {

void require_alike(const EngineDumpPart& first, const EngineDumpPart& other) {
  const auto require = [&](bool alike, const std::string& what) {
    if (!alike) other.refuse(what + " is not that of " + first.path);
  };
  require(first.num_tokens == other.num_tokens && first.num_heads == other.num_heads &&
              first.head_dim == other.head_dim && first.dtype == other.dtype,
          "the shape or dtype of 'partial_out'");
  require(first.query_start_loc == other.query_start_loc, "'query_start_loc'");
  require(first.base == other.base, "'lse_base'");
  require(first.interleave == other.interleave, "'interleave'");
  require(first.context_only == other.context_only, "'attention_split'");
  require(first.strategy == other.strategy, "'strategy'");
  require(first.num_out_heads == other.num_out_heads, "the number of heads in 'out' and 'lse'");
  require(first.out.empty() == other.out.empty(), "whether there is an 'out'");
  require(first.lse.empty() == other.lse.empty(), "whether there is an 'lse'");
}

PartialsCase join_partials(std::vector<EngineDumpPart>& parts) {
  const EngineDumpPart& first = parts.front();
  PartialsCase partials{.num_tokens = first.num_tokens,
                        .num_heads = first.num_heads,
                        .head_dim = first.head_dim,
                        .dtype = first.dtype,
                        .lse = {.base = first.base, .dtype = DType::kFp32},
                        .out_strides = token_major(first.num_heads, first.head_dim),
                        .lse_strides = token_major(first.num_heads, 1),
                        .ranks = {},
                        .query_start_loc = first.query_start_loc};
  for (EngineDumpPart& part : parts) {
    for (RankPartials& rank : part.ranks) partials.ranks.push_back(std::move(rank));
  }
  partials.world_size = static_cast<int>(partials.ranks.size());
  if (first.world_size && *first.world_size != partials.world_size) {
    const bool lacks_some = partials.world_size < *first.world_size;
    const int rank = lacks_some ? partials.world_size : *first.world_size;  // they count from 0
    first.refuse("'__metadata__': 'world_size' is " + std::to_string(*first.world_size) +
                 (lacks_some ? ", rank " : ", there is no rank ") + std::to_string(rank) +
                 (lacks_some ? " is missing" : " in it"));
  }
  if (partials.num_heads % partials.world_size != 0) {
    first.refuse(std::to_string(partials.num_heads) + " heads do not divide among " +
                 std::to_string(partials.world_size) + " ranks");
  }
  return partials;
}

// Rows of [T, H, width bytes] that belong to heads `first` .. `first + count - 1`.
void take_heads(const void* all, void* some, const PartialsCase& shape, int first,
                std::size_t width) {
  const auto num_heads = static_cast<std::size_t>(shape.num_heads);
  const auto kept = static_cast<std::size_t>(shape.heads_per_rank());
  for (std::size_t row = 0; row < static_cast<std::size_t>(shape.num_tokens); ++row) {
    std::memcpy(static_cast<std::byte*>(some) + row * kept * width,
                static_cast<const std::byte*>(all) +
                    (row * num_heads + static_cast<std::size_t>(first)) * width,
                kept * width);
  }
}

// The result of one file for the whole group, as if each rank had left its own heads.
PartialsResult split_results(const EngineDumpPart& part, const PartialsCase& shape) {
  PartialsResult result;
  const std::size_t row_bytes = static_cast<std::size_t>(shape.head_dim) * size_bytes(shape.dtype);
  for (int rank = 0; rank < shape.world_size; ++rank) {
    RankCombined& own = result.ranks.emplace_back();
    const int first = rank * shape.heads_per_rank();
    const auto rows = static_cast<std::size_t>(shape.num_tokens * shape.heads_per_rank());
    if (!part.out.empty()) {
      own.out.resize(rows * row_bytes);
      take_heads(part.out.data(), own.out.data(), shape, first, row_bytes);
    }
    if (!part.lse.empty()) {
      own.lse.resize(rows);
      take_heads(part.lse.data(), own.lse.data(), shape, first, sizeof(float));
    }
  }
  return result;
}

PartialsResult rank_results(std::vector<EngineDumpPart>& parts, const PartialsCase& shape) {
  const EngineDumpPart& first = parts.front();
  PartialsResult result;
  result.keeps_all_heads = first.num_out_heads == shape.num_heads;
  if (first.num_out_heads != 0 && !result.keeps_all_heads &&
      first.num_out_heads != shape.heads_per_rank()) {
    first.refuse("'out' and 'lse' have " + std::to_string(first.num_out_heads) + " heads; " +
                 std::to_string(shape.heads_per_rank()) + " of " + std::to_string(shape.num_heads) +
                 " heads on each of " + std::to_string(shape.world_size) +
                 " ranks expected, or all");
  }
  for (EngineDumpPart& part : parts) {
    RankCombined& rank = result.ranks.emplace_back();
    rank.out = std::move(part.out);
    rank.lse = std::move(part.lse);
  }
  return result;
}

// The keys that a rank holds must be those of the interleave rule: else a row's bound says nothing.
void require_interleave(const EngineDumpPart& part, const PartialsCase& partials) {
  for (std::size_t request = 0; request + 1 < partials.query_start_loc->size(); ++request) {
    std::int64_t length = 0;
    for (const RankPartials& rank : partials.ranks) length += rank.seq_lens[request];
    for (int rank = 0; rank < partials.world_size; ++rank) {
      const std::int64_t want = local_length(
          {.rank = rank, .world_size = partials.world_size, .interleave = *part.interleave},
          length);
      const std::int64_t got = partials.ranks[static_cast<std::size_t>(rank)].seq_lens[request];
      if (got == want) continue;
      part.refuse("'seq_lens': rank " + std::to_string(rank) + " holds " + std::to_string(got) +
                  " keys of request " + std::to_string(request) + "; of " + std::to_string(length) +
                  " keys at interleave " + std::to_string(*part.interleave) + " it would hold " +
                  std::to_string(want));
    }
  }
}

// Masks rows that see no key of their rank although the request has one there.
void mask_by_bound(const PartialsCase& partials, const EngineDumpPart& part,
                   std::vector<std::vector<bool>>& masked) {
  const std::vector<std::int32_t>& boundaries = *partials.query_start_loc;
  for (std::size_t request = 0; request + 1 < boundaries.size(); ++request) {
    std::int64_t length = 0;
    for (const RankPartials& rank : partials.ranks) length += rank.seq_lens[request];
    const std::int64_t query_len = boundaries[request + 1] - boundaries[request];
    for (std::int64_t j = 0; j < query_len; ++j) {
      const std::int64_t bound = global_causal_bound(length, query_len, part.context_only ? -1 : j);
      for (int rank = 0; rank < partials.world_size; ++rank) {
        const Shard shard{
            .rank = rank, .world_size = partials.world_size, .interleave = *part.interleave};
        if (local_length(shard, bound) > 0) continue;
        masked[static_cast<std::size_t>(rank)][static_cast<std::size_t>(boundaries[request] + j)] =
            true;
      }
    }
  }
}

std::vector<std::vector<bool>> mask_by_request(const PartialsCase& partials) {
  std::vector<std::vector<bool>> masked(partials.ranks.size());
  for (std::size_t rank = 0; rank < masked.size(); ++rank) {
    for (std::int64_t row = 0; row < partials.num_tokens; ++row) {
      masked[rank].push_back(is_masked_by_request(partials, static_cast<int>(rank), row));
    }
  }
  return masked;
}

// A sum of rounded terms is the less exact of the two, but on one rank, where there is no sum.
CombineTolerance tolerance_of(const std::string& strategy, const PartialsCase& partials) {
  const bool rounds_once =
      strategy.empty() ? partials.world_size == 1 : strategy == "a2a" || strategy == "direct";
  return {.rounding = rounds_once ? OutputRounding::kOnce : OutputRounding::kTerms,
          .world_size = partials.world_size,
          .dtype = partials.dtype};
}

}  // namespace

std::optional<std::size_t> EngineDump::index_on(int rank, std::int64_t row, int head) const {
  const int kept = engine.keeps_all_heads ? partials.num_heads : partials.heads_per_rank();
  const int local_head = engine.keeps_all_heads ? head : head - rank * kept;
  if (local_head < 0 || local_head >= kept) return std::nullopt;
  return static_cast<std::size_t>(row * kept + local_head);
}

double EngineDump::engine_lse(std::int64_t row, int head) const {
  const int rank = engine.keeps_all_heads ? 0 : head / partials.heads_per_rank();
  return engine.ranks[static_cast<std::size_t>(rank)].lse[*index_on(rank, row, head)];
}

PartialsCase EngineDump::masked_partials() const {
  PartialsCase result = partials;
  const auto num_heads = static_cast<std::size_t>(partials.num_heads);
  for (std::size_t rank = 0; rank < masked.size(); ++rank) {
    for (std::size_t row = 0; row < masked[rank].size(); ++row) {
      if (!masked[rank][row]) continue;
      for (std::size_t head = 0; head < num_heads; ++head) {
        store_element(result.ranks[rank].lse.data(), DType::kFp32, row * num_heads + head,
                      DumpRows::kEmpty);
      }
    }
  }
  return result;
}

std::vector<EngineDump> read_engine_dump(const std::vector<std::string>& paths, bool per_rank) {
  std::vector<std::vector<EngineDumpPart>> layers;
  for (const std::string& path : paths) {
    auto parts = read_engine_dump_parts(path, per_rank);
    if (layers.empty()) layers.resize(parts.size());
    if (parts.size() != layers.size()) {
      parts.front().refuse("the number of layers is not that of " + paths.front());
    }
    for (std::size_t i = 0; i < parts.size(); ++i) layers[i].push_back(std::move(parts[i]));
  }
  std::vector<EngineDump> dumps;
  for (auto& parts : layers) dumps.push_back(join_engine_dump(std::move(parts), per_rank));
  return dumps;
}

EngineDump join_engine_dump(std::vector<EngineDumpPart> parts, bool per_rank) {
  const EngineDumpPart& first = parts.front();
  for (const EngineDumpPart& part : parts) require_alike(first, part);
  EngineDump dump{.source = first.source,
                  .partials = join_partials(parts),
                  .masked = {},
                  .tolerance = {},
                  .engine = {}};
  dump.masked = mask_by_request(dump.partials);
  dump.tolerance = tolerance_of(first.strategy, dump.partials);
  dump.engine = per_rank ? rank_results(parts, dump.partials) : split_results(first, dump.partials);
  if (first.interleave && dump.partials.query_start_loc) {
    require_interleave(first, dump.partials);
    mask_by_bound(dump.partials, first, dump.masked);
    dump.masks_rows = true;
  }
  return dump;
}

}  // namespace dcp
