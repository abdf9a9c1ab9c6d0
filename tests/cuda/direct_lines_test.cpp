// The direct exchange of few rows, in lines: what the GPU leaves beside what the host leaves.
#include "tests/cuda/whole_exchange.hpp"

namespace dcp {
namespace {

class DirectLinesKernel : public WholeExchangeTest {
 protected:
  void check(Arena& arena, const Exchange& form, int variant) {
    WholeExchangeTest::check<DirectLines>(
        arena, form, variant, [&](const std::vector<std::byte>& gpu, const WholeExchange& all) {
          for (std::size_t i = 0; i < form.world_size * all.lines_of_a_rank(); ++i) {
            const std::size_t line = all.lines + i * sizeof(ExchangeLine);
            expect_same(arena, gpu, line, offsetof(ExchangeLine, lse), "payload of a line");
            expect_same_lse(arena, gpu, line + offsetof(ExchangeLine, lse));
            expect_same(arena, gpu, line + offsetof(ExchangeLine, epoch), sizeof(std::uint32_t),
                        "epoch of a line");
          }
        });
  }
};

TEST_F(DirectLinesKernel, LeavesTheHostsLinesAndEpochsAndAgreesOnTheResult) {
  int variant = 0;
  for (const DType dtype : kDTypes) {
    for (const int world_size : {2, 3, 4, 5, 7, 8}) {
      for (const int dim : {8, 24, 72, 512, 1160}) {
        const Layout& layout = kLayouts[(variant / 5 + variant) % std::size(kLayouts)];
        Exchange exchange{.world_size = world_size,
                          .rank = 0,
                          .heads_per_rank = 1 + variant % 5,
                          .head_dim = dim,
                          .num_tokens = 1 + variant % 2,
                          .max_num_tokens = 2,
                          .dtype = dtype,
                          .lse_dtype = kDTypes[variant % 3],
                          .epoch = variant % 7 == 0 ? 0xFFFFFFFEu : 4u + variant % 2,
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

}  // namespace
}  // namespace dcp
