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
  params.dtype = cache.dtype();
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
