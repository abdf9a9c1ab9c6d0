#include "engine/shared_values.hpp"

#include <cstring>

namespace dcp {

namespace {

// Writes values one after the other.
class Packer {
 public:
  template <class T>
  void add(const T& value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(value));
  }
  template <class T>
  void add(const std::vector<T>& values) {
    add(values.size());
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    bytes_.insert(bytes_.end(), bytes, bytes + values.size() * sizeof(T));
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Reads them back in the same order.
class Unpacker {
 public:
  explicit Unpacker(const std::vector<std::byte>& bytes) : at_(bytes.data()) {}

  template <class T>
  void get(T& value) {
    std::memcpy(&value, at_, sizeof(value));
    at_ += sizeof(value);
  }
  template <class T>
  void get(std::vector<T>& values) {
    std::size_t count = 0;
    get(count);
    values.resize(count);
    if (count > 0) std::memcpy(values.data(), at_, count * sizeof(T));
    at_ += count * sizeof(T);
  }

 private:
  const std::byte* at_;
};

// Calls `visit` for every part, in a fixed order, whether it packs or unpacks.
template <class Visit>
void each_part(RankLayerValues& rank, std::vector<float>& query, const Visit& visit) {
  visit(query);
  for (auto* part : {&rank.partial_out, &rank.partial_lse, &rank.out, &rank.lse, &rank.context_out,
                     &rank.context_lse, &rank.new_out, &rank.new_lse}) {
    visit(*part);
  }
  visit(rank.first_out_head);
  visit(rank.num_out_heads);
}

template <class Visit>
void each_part(TensorBits& tensor, const Visit& visit) {
  visit(tensor.dtype);
  visit(tensor.shape);
  visit(tensor.bytes);
}

template <class Visit>
void each_part(RankLayerBits& rank, TensorBits& query, const Visit& visit) {
  for (TensorBits* tensor : {&query, &rank.partial_out, &rank.partial_lse, &rank.out}) {
    each_part(*tensor, visit);
  }
  bool has_lse = rank.lse.has_value();
  visit(has_lse);
  if (!has_lse) return;
  if (!rank.lse) rank.lse.emplace();
  each_part(*rank.lse, visit);
}

bool is_empty(const std::vector<float>& query) { return query.empty(); }
bool is_empty(const TensorBits& query) { return query.bytes.empty(); }

template <class Values>
void share_ranks(World& world, Values& values) {
  std::vector<std::vector<std::byte>> of_ranks(values.ranks.size());
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    if (!world.has_rank(static_cast<int>(rank))) continue;
    Packer packer;
    each_part(values.ranks[rank], values.query, [&](const auto& part) { packer.add(part); });
    of_ranks[rank] = packer.take();
  }
  world.share(of_ranks);
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    if (world.has_rank(static_cast<int>(rank))) continue;
    Unpacker unpacker(of_ranks[rank]);
    auto query = std::decay_t<decltype(values.query)>{};
    each_part(values.ranks[rank], query, [&](auto& part) { unpacker.get(part); });
    if (!is_empty(query)) values.query = std::move(query);
  }
}

bool has_all_ranks(const World& world) {
  for (int rank = 0; rank < world.world_size(); ++rank) {
    if (!world.has_rank(rank)) return false;
  }
  return true;
}

}  // namespace

void share(World& world, LayerValues& values) {
  if (!has_all_ranks(world)) share_ranks(world, values);
}

void share(World& world, LayerBits& bits) {
  if (!has_all_ranks(world)) share_ranks(world, bits);
}

}  // namespace dcp
