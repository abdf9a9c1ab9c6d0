// What is known of captured graphs and of the memory that they hold, as plain data: the input of
// the audit. It is filled from a runtime, or read from what another program wrote; nothing here
// knows which.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace dcp::audit {

using Address = std::uint64_t;

// Moments of one rank's allocations: the number of allocations and releases before.
using Moment = std::uint64_t;
inline constexpr Moment kNever = std::numeric_limits<Moment>::max();

enum class Mode : std::uint8_t { kRead, kWrite, kReadWrite };

struct Access {
  Address address = 0;
  std::uint64_t size_bytes = 0;  // 0: the node has the pointer and touches nothing behind it
  Mode mode = Mode::kReadWrite;
  std::string argument = {};  // the pointer among the node's arguments
  bool is_declared = true;    // false: taken from the argument bytes alone, so as read and written
  bool is_indexed = false;    // only those elements that an index in device memory names

  bool reads() const { return mode != Mode::kWrite; }
  bool writes() const { return mode != Mode::kRead; }
  Address end() const { return address + size_bytes; }
};

struct Dependency {
  int node = 0;
  bool is_programmatic = false;  // the consumer may begin before the producer has completed
  bool consumer_waits = false;   // and waits for that itself, before it touches anything
};

struct Node {
  std::string op;
  std::string stream = {};
  int ubatch = -1;
  Moment captured_at = 0;
  std::vector<Dependency> dependencies = {};  // of lower index
  std::vector<Access> accesses = {};
  std::vector<std::uint64_t> words = {};  // its argument bytes, 8 at a time
  bool has_declaration = true;            // false: nobody knows what it touches
  std::string exchange = {};              // of a collective: what all ranks must call alike
  std::uint64_t communicator = 0;         // of a collective
  bool waits_for_peers = false;           // it ends once all ranks have come as far
};

// What a buffer is for.
enum class Role : std::uint8_t {
  kUnknown,
  kInput,     // written by the host before a launch
  kMetadata,  // the same, derived from the batch
  kState,     // outlives launches: the KV cache, epochs
  kScratch,   // holds nothing between launches
  kOutput,    // read when a launch is done
  kHeld,      // somebody keeps it for a purpose of his own
};

// Which allocation an owner means by a buffer's name. A graph has those that it was captured with,
// a rank those that the next step would use.
struct Binding {
  std::string name;
  int ubatch = -1;  // -1: of all
  Role role = Role::kUnknown;
  std::uint32_t allocation = 0;
  Address address = 0;
  std::uint64_t size_bytes = 0;
};

struct Graph {
  std::string name;
  std::int64_t rows = 0;
  std::string pool = {};  // owner of what was allocated during the capture
  std::vector<Node> nodes = {};
  std::vector<Binding> bindings = {};

  // Operations that the step consists of, in the order in which they are enqueued; empty: unknown.
  std::vector<Node> plan = {};
};

enum class Ending : std::uint8_t {
  kLive,
  kFreed,     // given back: the bytes belong to somebody else
  kToPool,    // given back inside a capture, to the pool that the graph keeps
  kRemapped,  // other memory lies behind the address
};

struct Allocation {
  std::uint32_t id = 0;  // index in RankRecord::allocations
  std::string name;
  std::string owner = {};
  std::uint32_t generation = 1;
  Address address = 0;
  std::uint64_t size_bytes = 0;
  Moment born = 0;
  Moment died = kNever;
  Ending ending = Ending::kLive;
  bool is_host = false;
  int born_in_step = -1;  // index of the scenario's step; -1: before the first
  int died_in_step = -1;

  Address end() const { return address + size_bytes; }
  bool is_alive_at(Moment moment) const { return born <= moment && moment < died; }
};

struct RankRecord {
  int rank = 0;
  std::vector<Allocation> allocations = {};
  std::vector<Binding> bindings = {};
  std::vector<Graph> graphs = {};  // that may be launched
};

struct Record {
  std::vector<RankRecord> ranks;
};

}  // namespace dcp::audit
