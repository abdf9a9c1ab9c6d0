#include "core/spelling.hpp"

#include <gtest/gtest.h>

namespace dcp {
namespace {

constexpr std::string_view kWords[] = {"world_size", "interleave", "kv", "graph"};

TEST(DidYouMean, NamesTheNearestWord) {
  EXPECT_EQ(did_you_mean("wrold_size", kWords), " (did you mean 'world_size'?)");
  EXPECT_EQ(did_you_mean("interleaf", kWords), " (did you mean 'interleave'?)");
  EXPECT_EQ(did_you_mean("GRAPH", kWords), " (did you mean 'graph'?)");
  EXPECT_EQ(did_you_mean("graphs", kWords), " (did you mean 'graph'?)");
}

TEST(DidYouMean, CountsASwapOfNeighboursAsOneEdit) {
  EXPECT_EQ(did_you_mean("grpah", kWords), " (did you mean 'graph'?)");
}

TEST(DidYouMean, IsSilentWhereNothingIsNear) {
  EXPECT_EQ(did_you_mean("temperature", kWords), "");
  EXPECT_EQ(did_you_mean("k0", kWords), "");
  EXPECT_EQ(did_you_mean("", kWords), "");
  EXPECT_EQ(did_you_mean(std::string(1000, 'g'), kWords), "");
}

}  // namespace
}  // namespace dcp
