// The direct exchange in one node, in each of its forms (vectors in flight, elements): what
// the GPU leaves of a whole exchange beside what the host leaves.
#include "tests/cuda/whole_exchange.hpp"

namespace dcp {
namespace {

class DirectExchangeKernel : public WholeExchangeTest {
 protected:
  void check(Arena& arena, const Exchange& form, int variant) {
    WholeExchangeTest::check<DirectExchange>(
        arena, form, variant, [&](const std::vector<std::byte>& gpu, const WholeExchange&) {
          const std::size_t slots = form.world_size * form.slot_rows();
          expect_same(arena, gpu, form.payload, slots * form.row_bytes(), "payload");
          for (std::size_t i = 0; i < slots; ++i) {
            expect_same_lse(arena, gpu, form.lse_slots + i * sizeof(float));
          }
        });
  }
};

TEST_F(DirectExchangeKernel, LeavesTheHostsSlotsAndEpochsAndAgreesOnTheResult) {
  int variant = 0;
  for_each_exchange(
      [&](Arena& arena, const Exchange& exchange) { check(arena, exchange, ++variant); });
}

TEST_F(DirectExchangeKernel, AgreesWithTheHostForAllSizesLayoutsAndOddLses) {
  int variant = 0;
  for (const DType dtype : kDTypes) {
    for (const int world_size : {2, 5, 7, 8, 9, 33, 64}) {
      for (const int dim : {8, 24, 72, 520}) {
        const Layout& layout = kLayouts[(variant / 4 + variant) % std::size(kLayouts)];
        Exchange exchange{.world_size = world_size,
                          .rank = 0,
                          .heads_per_rank = 1 + variant % 3,
                          .head_dim = dim,
                          .num_tokens = world_size > 9 ? 2 + variant % 2 : 1 + variant % 13,
                          .max_num_tokens = 14,
                          .dtype = dtype,
                          .lse_dtype = kDTypes[variant % 3],
                          .epoch = 4u + static_cast<std::uint32_t>(variant % 2),
                          .is_head_major = layout.is_head_major,
                          .element_stride = layout.element_stride,
                          .head_padding = layout.head_padding};
        SCOPED_TRACE(std::string(name(dtype)) + " N " + std::to_string(world_size) + " D " +
                     std::to_string(dim) + " T " + std::to_string(exchange.num_tokens) + ", " +
                     layout.what);
        Arena arena;
        exchange.add_to(arena);
        check(arena, exchange, variant);
        if (HasFailure()) return;
        ++variant;
      }
    }
  }
}

// A row that has more vectors than a block has lanes goes by elements also where there are few
// ranks.
TEST_F(DirectExchangeKernel, AgreesWithTheHostWhereRowsAreLongerThanABlock) {
  for (const DType dtype : kDTypes) {
    const int dim = 257 * 16 / static_cast<int>(size_bytes(dtype));
    Exchange exchange{.world_size = 4,
                      .rank = 0,
                      .heads_per_rank = 2,
                      .head_dim = dim,
                      .num_tokens = 3,
                      .max_num_tokens = 4,
                      .dtype = dtype,
                      .lse_dtype = DType::kFp32,
                      .epoch = 7,
                      .is_head_major = false};
    SCOPED_TRACE(name(dtype));
    Arena arena;
    exchange.add_to(arena);
    check(arena, exchange, static_cast<int>(size_bytes(dtype)));
  }
}

}  // namespace
}  // namespace dcp
