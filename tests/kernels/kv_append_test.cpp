#include "kernels/kv_append.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/kernels/tensor.hpp"

namespace dcp::test {
namespace {

KvAppend::Params params_for(const Tensor& new_kv, Tensor& cache,
                            const std::vector<std::int64_t>& slots) {
  KvAppend::Params params{};
  params.new_kv = new_kv.data();
  params.kv_cache = cache.data();
  params.slot_mapping = slots.data();
  params.num_tokens = static_cast<std::int64_t>(slots.size());
  params.num_slots = static_cast<std::int64_t>(cache.count()) / 4;
  params.dim = 4;
  params.dtype = new_kv.dtype();
  params.kv_dtype = cache.dtype();
  return params;
}

TEST(KvAppend, StoresEachTokenIntoItsSlotAndSkipsNegativeOnes) {
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16}) {
    Tensor new_kv(dtype, 4 * 4);
    for (int i = 0; i < 16; ++i) new_kv.set_bits(i, 0x7F81u + static_cast<unsigned>(i));
    Tensor cache(dtype, 6 * 4);
    Tensor want = cache;
    const std::vector<std::int64_t> slots = {5, -1, 0, -7};
    for (int i = 0; i < 4; ++i) {
      want.set_bits(5 * 4 + i, new_kv.bits(i));
      want.set_bits(i, new_kv.bits(2 * 4 + i));
    }
    KvAppend::run(params_for(new_kv, cache, slots));
    EXPECT_TRUE(cache == want) << name(dtype);
  }
}

// e4m3 has steps of 2 between 16 and 32, of 2^-9 below 2^-6, and ends at 448.
TEST(KvAppend, RoundsToFp8HalvesToEvenAndSaturates) {
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16}) {
    Tensor new_kv(dtype, 8);
    const float values[] = {17, 19, -1000, 0x1.8p-9f, 1.0625f, -0.0f, 448, 0x1p-10f};
    const float stored[] = {16, 20, -448, 0x1p-8f, 1, -0.0f, 448, 0};
    for (int i = 0; i < 8; ++i) new_kv.set(i, values[i]);
    Tensor cache(DType::kFp8E4m3, 3 * 4);
    Tensor want = cache;
    for (int i = 0; i < 4; ++i) {
      want.set(2 * 4 + i, stored[i]);
      want.set(i, stored[4 + i]);
    }
    KvAppend::run(params_for(new_kv, cache, {2, 0}));
    EXPECT_TRUE(cache == want) << name(dtype);
  }
}

TEST(KvAppend, RefusesASlotPastTheCache) {
  const Tensor new_kv(DType::kBf16, 4);
  Tensor cache(DType::kBf16, 6 * 4);
  const std::vector<std::int64_t> slots = {6};
  try {
    KvAppend::run(params_for(new_kv, cache, slots));
    FAIL() << "slot 6 of 6 was accepted";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.kind(), "illegal_address");
    EXPECT_NE(failure.why().find("slot 6 of a cache of 6 slots"), std::string::npos);
  }
}

TEST(KvAppend, OfNoTokensTouchesNothing) {
  const Tensor new_kv(DType::kBf16, 0);
  Tensor cache(DType::kBf16, 4);
  const Tensor before = cache;
  KvAppend::run(params_for(new_kv, cache, {}));
  EXPECT_TRUE(cache == before);
}

}  // namespace
}  // namespace dcp::test
