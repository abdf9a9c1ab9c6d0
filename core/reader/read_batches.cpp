#include "core/reader/map_reader.hpp"
#include "core/reader/parts.hpp"

namespace dcp::reader {

namespace {

// Wide on purpose: what a batch means is checked by the step that uses it, and a step may expect
// that error.
auto lengths() { return list_of(integer(kMinInt32, kMaxInt32)); }

Batch read_batch(const YamlNode::Entry& entry, int world_size) {
  Batch batch;
  batch.name = read_name(entry.key, "batch name");
  batch.place = entry.key.place;
  const MapReader map(entry.value, "batches." + shown(batch.name),
                      {"seq_lens", "query_start_loc", "rows", "ubatch_starts", "local_seq_lens"});
  map.required("seq_lens", lengths(), batch.seq_lens);
  map.optional("query_start_loc", list_of(integer(kMinInt32, kMaxRows)), batch.query_start_loc);
  map.optional("rows", integer(0, kMaxRows), batch.rows);
  map.optional("ubatch_starts", list_of(integer(0, kMaxRows)), batch.ubatch_starts);
  const YamlNode* local = map.find("local_seq_lens");
  if (local == nullptr || local->kind == YamlNode::Kind::kNull) return batch;
  batch.local_seq_lens = list_of(lengths())(*local, map.path("local_seq_lens"));
  if (batch.local_seq_lens->size() != static_cast<std::size_t>(world_size)) {
    refuse(*local, "'" + map.path("local_seq_lens") +
                       "' must have one list per rank: " + std::to_string(world_size) + ", not " +
                       std::to_string(batch.local_seq_lens->size()));
  }
  return batch;
}

}  // namespace

std::vector<Batch> read_batches(const YamlNode& node, int world_size) {
  if (node.kind != YamlNode::Kind::kMap) refuse_type(node, "batches", "a map of names to batches");
  if (node.entries.empty()) refuse(node, "'batches' must name at least one batch");
  std::vector<Batch> batches;
  for (const YamlNode::Entry& entry : node.entries)
    batches.push_back(read_batch(entry, world_size));
  return batches;
}

}  // namespace dcp::reader
