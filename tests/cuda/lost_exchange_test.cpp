// What a GPU leaves where a rank has waited in vain and its graph holds more exchanges: nothing of
// them. Its report says how far the rank came, and a peer sees no flag of an exchange to come.
#include "kernels/direct_send_rows.hpp"
#include "kernels/direct_take_rows.hpp"
#include "tests/cuda/whole_exchange.hpp"

namespace dcp {
namespace {

constexpr Exchange kForm{.world_size = 2,
                         .rank = 0,
                         .heads_per_rank = 2,
                         .head_dim = 64,
                         .num_tokens = 1,
                         .max_num_tokens = 2,
                         .dtype = DType::kBf16,
                         .lse_dtype = DType::kFp32,
                         .epoch = 4,
                         .is_head_major = false};

// Rank 0 of two ranks makes two exchanges, epochs 5 and 6; rank 1 does not come.
class LostExchange : public WholeExchangeTest {
 protected:
  // `exchange_once(whole, base, at)` launches the kernels of one exchange of rank 0.
  template <class Once>
  void check(const Once& exchange_once, Exchange form = kForm) {
    Arena arena;
    form.add_to(arena);
    WholeExchange exchange = whole(form, 0);
    exchange.add_to(arena);
    const auto gpu = arena.on_gpu([&](std::byte* base, const Launch& at) {
      for (int times = 0; times < 2; ++times) exchange_once(exchange, base, at);
    });
    ASSERT_EQ(arena.fault().kind, static_cast<std::uint32_t>(FaultKind::kFlagMissing));
    const auto& values = arena.fault().values;  // peer, ubatch, slot, wanted epoch, seen epoch
    EXPECT_EQ(std::vector<std::int64_t>(values, values + 4),
              (std::vector<std::int64_t>{1, 0, 1, 5}));
    EXPECT_LT(values[4], 5);
    ExchangeState state;
    std::memcpy(&state, &gpu[exchange.ranks[0].state], sizeof(state));
    EXPECT_TRUE(is_lost(state));
    EXPECT_EQ(state.epoch, 5u);
    EXPECT_EQ(state.published, 5u);
    EXPECT_EQ(last_consumed(state, kSlots), 4u);
    EXPECT_EQ(state.num_done, 0u);
    expect_nothing_of(6, gpu, exchange);
  }

 private:
  // Neither a flag nor a line.
  static void expect_nothing_of(std::uint32_t epoch, const std::vector<std::byte>& gpu,
                                const WholeExchange& exchange) {
    const std::size_t ranks = exchange.ranks.size();
    for (std::size_t i = 0; i < ranks * exchange.signals_of_a_rank(); ++i) {
      std::uint32_t flag = 0;
      std::memcpy(&flag, &gpu[exchange.signals + i * sizeof(flag)], sizeof(flag));
      EXPECT_NE(flag, epoch) << "flag " << i;
    }
    for (std::size_t i = 0; i < ranks * exchange.lines_of_a_rank(); ++i) {
      ExchangeLine line;
      std::memcpy(&line, &gpu[exchange.lines + i * sizeof(line)], sizeof(line));
      EXPECT_NE(line.epoch, epoch) << "line " << i;
    }
  }
};

DirectExchange::Params soon_over(const WholeExchange& exchange, std::byte* base) {
  DirectExchange::Params params = exchange.params(base, 0);
  params.wait.bound.timeout_ns = 10'000'000;
  return params;
}

TEST_F(LostExchange, IsTheLastInOneKernel) {
  check([](const WholeExchange& exchange, std::byte* base, const Launch& at) {
    launch(soon_over(exchange, base), at);
  });
}

TEST_F(LostExchange, IsTheLastInOneKernelOfAnyStrides) {
  Exchange form = kForm;
  form.element_stride = 2;
  check([](const WholeExchange& exchange, std::byte* base,
           const Launch& at) { launch(soon_over(exchange, base), at); },
        form);
}

TEST_F(LostExchange, IsTheLastInLines) {
  check([](const WholeExchange& exchange, std::byte* base, const Launch& at) {
    DirectLines::Params params = exchange.line_params(base, 0);
    params.bound.timeout_ns = 10'000'000;
    launch(params, at);
  });
}

TEST_F(LostExchange, IsTheLastInSteps) {
  check([](const WholeExchange& exchange, std::byte* base, const Launch& at) {
    const DirectExchange::Params params = soon_over(exchange, base);
    DirectRead::Params read = exchange.form.read(base);
    read.state = params.publish.state;
    launch(DirectAdvance::Params{.state = params.publish.state, .num_slots = kSlots}, at);
    launch(params.send, at);
    launch(params.publish, at);
    launch(params.wait, at);
    launch(read, at);
  });
}

// A row of the partial goes to every rank.
TEST_F(LostExchange, IsTheLastOfAGather) {
  check([](const WholeExchange& exchange, std::byte* base, const Launch& at) {
    const DirectExchange::Params params = soon_over(exchange, base);
    const Exchange& form = exchange.form;
    ExchangeState* const state = params.publish.state;
    const auto row_bytes = static_cast<std::int64_t>(form.row_bytes());
    DirectSendRows::Params send{
        .advance = {.state = state, .num_slots = kSlots},
        .store = {.rows = params.send.out.data,
                  .target = params.send.payload,
                  .state = state,
                  .stores = nullptr,
                  .num_rows = 1,
                  .row_bytes = row_bytes,
                  .row_stride = row_bytes,
                  .first_byte = 0,
                  .slot_bytes = static_cast<std::int64_t>(form.world_size) * row_bytes,
                  .world_size = form.world_size,
                  .rank = 0,
                  .num_slots = kSlots},
        .publish = params.publish};
    DirectTakeRows::Params take{.wait = params.wait,
                                .read = {.slots = params.send.payload.at[0],
                                         .gathered = base + form.received,
                                         .state = state,
                                         .num_rows = 1,
                                         .max_num_rows = 1,
                                         .row_bytes = row_bytes,
                                         .world_size = form.world_size,
                                         .num_slots = kSlots}};
    launch(send, at);
    launch(take, at);
  });
}

}  // namespace
}  // namespace dcp
