// What an op is: one kernel, described so that runtimes, the graph record and the auditor see the
// same thing: its name, the bytes of its arguments, and the memory that it may touch.
//
// An op is a struct with `kName`, a trivially copyable `Params`, `accesses(params, out)` and
// `run(params)`; where it waits for other ranks also `arrive`, `ready` and `waits_for`. Params are
// copied when the op is enqueued, on every backend: a value frozen by a capture is frozen on all.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace dcp {

enum class Mode : std::uint8_t { kRead, kWrite, kReadWrite };

// Bytes that an op may touch; of 0 bytes: the op has the pointer, and touches nothing behind it.
// `argument` is the name of the pointer in Params.
struct Access {
  const void* data;
  std::size_t size_bytes;
  Mode mode;
  std::string_view argument;
  bool is_indexed = false;  // of these bytes, elements that an index in device memory names
};

struct OpInfo {
  std::string_view name;
  std::size_t params_size;
  void (*accesses)(const void* params, std::vector<Access>& out);
  void (*run)(const void* params);  // host body

  // Blocking ops only, null otherwise. `arrive` is called once, when everything before the op has
  // completed; `run` only after `ready` has become true; `waits_for` says what is missing.
  void (*arrive)(const void* params);
  bool (*ready)(const void* params);
  std::string (*waits_for)(const void* params);

  // Kind of the failure where the op waits in vain.
  std::string_view stuck_kind;

  // For ops whose params say what they do: a name for people. Null: `name` says it all.
  std::string_view (*label)(const void* params);

  // For ops whose params name something of the program's own, such as a communicator, that is
  // neither a value nor memory that the op may touch. Null: none.
  const void* (*handle)(const void* params);
};

template <class O>
concept Op = std::is_trivially_copyable_v<typename O::Params> &&
    requires(const typename O::Params& params, std::vector<Access>& out) {
  { O::kName } -> std::convertible_to<std::string_view>;
  O::accesses(params, out);
  O::run(params);
};

template <class O>
concept BlockingOp = Op<O> && requires(const typename O::Params& params) {
  O::arrive(params);
  { O::ready(params) } -> std::same_as<bool>;
  { O::waits_for(params) } -> std::convertible_to<std::string>;
};

template <class O>
concept BoundedOp = BlockingOp<O> && requires {
  { O::kStuckKind } -> std::convertible_to<std::string_view>;
};

template <class O>
concept LabelledOp = Op<O> && requires(const typename O::Params& params) {
  { O::label(params) } -> std::convertible_to<std::string_view>;
};

template <class O>
concept HandledOp = Op<O> && requires(const typename O::Params& params) {
  { O::handle(params) } -> std::convertible_to<const void*>;
};

namespace op_detail {

template <class O>
const typename O::Params& as(const void* params) {
  return *static_cast<const typename O::Params*>(params);
}

template <class O>
constexpr OpInfo make_info() {
  OpInfo info{};
  info.name = O::kName;
  info.params_size = sizeof(typename O::Params);
  info.accesses = [](const void* p, std::vector<Access>& out) { O::accesses(as<O>(p), out); };
  info.run = [](const void* p) { O::run(as<O>(p)); };
  if constexpr (BlockingOp<O>) {
    info.arrive = [](const void* p) { O::arrive(as<O>(p)); };
    info.ready = [](const void* p) { return O::ready(as<O>(p)); };
    info.waits_for = [](const void* p) { return O::waits_for(as<O>(p)); };
    info.stuck_kind = "deadlock";
  }
  if constexpr (BoundedOp<O>) info.stuck_kind = O::kStuckKind;
  if constexpr (LabelledOp<O>) {
    info.label = [](const void* p) { return std::string_view(O::label(as<O>(p))); };
  }
  if constexpr (HandledOp<O>) {
    info.handle = [](const void* p) { return static_cast<const void*>(O::handle(as<O>(p))); };
  }
  return info;
}

}  // namespace op_detail

// The one static table of an op. Its address identifies the op.
template <Op O>
inline constexpr OpInfo kOpInfo = op_detail::make_info<O>();

}  // namespace dcp
