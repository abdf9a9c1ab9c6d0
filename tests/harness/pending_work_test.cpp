// What nothing orders among the tasks that are pending.
#include "harness/audit/pending_work.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "runtime/memcpy_op.hpp"

namespace dcp {
namespace {

struct ReadOp {
  static constexpr std::string_view kName = "read";
  struct Params {
    const void* from;
    std::uint64_t size_bytes;
  };
  static void accesses(const Params& p, std::vector<Access>& out) {
    out.push_back({p.from, p.size_bytes, Mode::kRead, "from"});
  }
  static void run(const Params&) {}
};

template <class O>
Task task(const typename O::Params& params, const std::string& stream) {
  Task task{.op = &kOpInfo<O>, .params = nullptr, .owned = {}, .rank = 0, .where = stream};
  const auto bytes = std::as_bytes(std::span(&params, 1));
  task.owned.assign(bytes.begin(), bytes.end());
  task.params = task.owned.data();
  return task;
}

// A copy over two neighbours, of which one op reads the second.
TEST(PendingWork, ARaceWithACopyOfSeveralBuffersNamesTheOneThatIsRead) {
  std::array<std::byte, 16> from{};
  std::array<std::byte, 16> to{};
  const auto address = [&](std::size_t offset) {
    return reinterpret_cast<audit::Address>(to.data() + offset);
  };
  const audit::RankRecord record{
      .rank = 0,
      .allocations = {{.id = 0, .name = "first", .address = address(0), .size_bytes = 8},
                      {.id = 1, .name = "second", .address = address(8), .size_bytes = 8}}};
  for (const bool copy_is_first : {true, false}) {
    PendingWork work(nullptr);
    work.begin_step(0);
    work.watch(1);
    const Task copy = task<MemcpyOp>({to.data(), from.data(), to.size()}, "s1");
    const Task read = task<ReadOp>({to.data() + 8, 8}, "compute");
    work.added(0, copy_is_first ? copy : read, {});
    work.added(1, copy_is_first ? read : copy, {});
    std::vector<int> others;
    const auto findings = work.look({record}, "", others);
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].kind, "missing_edge");
    EXPECT_EQ(findings[0].buffer, "second");
  }
}

}  // namespace
}  // namespace dcp
