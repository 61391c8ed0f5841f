// Which rungs calls get.
#include <gtest/gtest.h>

#include "kernels/index_add/operations.hpp"

namespace ws::index_add {
namespace {

std::string chosen(std::string_view operation, std::array<int64_t, kMaxExtents> extents,
                   int64_t dim = 0) {
  Case of{.extents = extents};
  of.attributes[0] = dim;
  return std::string(
      best(AnyCall(make_problem(operation_named(operation), of, DType::kF16)), 90).name);
}

TEST(IndexAdd, RungsThatCallsGet) {
  EXPECT_EQ(chosen("index_add", {16384, 2048, 32}), "own_columns");
  EXPECT_EQ(chosen("index_add", {16384, 2048, 96}), "own_columns");
  EXPECT_EQ(chosen("index_add", {16384, 2048, 97}), "sorted");
  EXPECT_EQ(chosen("index_add", {16384, 2052, 33}), "sorted") << "a sort beside so much is little";
  EXPECT_EQ(chosen("index_add", {16384, 4096, 32}), "own_columns") << "measured";
  EXPECT_EQ(chosen("index_add", {16384, 4096, 128256}), "sorted");
  EXPECT_EQ(chosen("index_add", {255, 4096, 32}), "sorted") << "too few elements";
  EXPECT_EQ(chosen("index_add", {256, 4096, 65}), "sorted") << "too few for each row";
  EXPECT_EQ(chosen("index_add", {1 << 20, 64, 32}), "sorted") << "too few columns";
  EXPECT_EQ(chosen("index_add", {4096, 1, 24, 4096}, 1), "sorted") << "not side by side, and few";
  EXPECT_EQ(chosen("index_add", {4096, 128, 32, 4}, 1), "own_columns");
  EXPECT_EQ(chosen("index_add", {4096, 1, 4096, 256}, 1), "add_lines");
  EXPECT_EQ(chosen("index_add", {1 << 15, 1, 4096, 64}, 1), "add_lines");
  EXPECT_EQ(chosen("index_add", {1 << 15, 1, 4096, 63}, 1), "large_index") << "too few lines";
  EXPECT_EQ(chosen("index_add", {4096, 1, 4097, 256}, 1), "large_index") << "no whole vectors";
}

TEST(ScatterAdd, RungsThatCallsGet) {
  EXPECT_EQ(chosen("scatter_add", {16384, 4096, 32}), "own_columns");
  EXPECT_EQ(chosen("scatter_add", {16384, 4096, 192}), "own_columns");
  EXPECT_EQ(chosen("scatter_add", {16384, 4096, 193}), "large_index") << "in the L2 as it is";
  EXPECT_EQ(chosen("scatter_add", {16384, 4096, 1023}), "large_index") << "in the L2 as it is";
  EXPECT_EQ(chosen("scatter_add", {16384, 4096, 1024}), "add_strips");
  EXPECT_EQ(chosen("scatter_add", {16384, 4097, 4096}), "add_strips") << "17 columns each";
  EXPECT_EQ(chosen("scatter_add", {16384, 4099, 4096}), "large_index") << "a prime number";
  EXPECT_EQ(chosen("scatter_add", {1023, 4096, 4096}), "large_index") << "too few elements";
  EXPECT_EQ(chosen("scatter_add", {256, 1, 8192, 4096}, 1), "add_lines");
  EXPECT_EQ(chosen("scatter_add", {255, 4096, 32}), "large_index") << "too few elements";
  EXPECT_EQ(chosen("scatter_add", {4096, 1, 32, 4096}, 1), "add_lines");
  EXPECT_EQ(chosen("scatter_add", {4096, 1, 24, 4096}, 1), "large_index") << "too few sums";
}

TEST(IndexSelect, RungsThatCallsGet) {
  EXPECT_EQ(chosen("index_select", {16384, 4096, 128256}), "take_rows");
  EXPECT_EQ(chosen("index_select", {16, 8, 4}), "take_rows");
  EXPECT_EQ(chosen("index_select", {16, 8, 4, 3}, 1), "take_rows");
  EXPECT_EQ(chosen("index_select", {16, 12, 4}), "take_quick") << "no whole vectors";
  EXPECT_EQ(chosen("index_select", {16, 8, 4, 3, kTransposed}, 1), "take_quick");
  EXPECT_EQ(chosen("index_select", {4096, 1, 4096, 4096}, -1), "take_lines");
}

TEST(Gather, RungsThatCallsGet) {
  EXPECT_EQ(chosen("gather", {16, 4096, 4}), "take_quick") << "an index for each element";
  EXPECT_EQ(chosen("gather", {16384, 4096, 32}), "take_columns");
  EXPECT_EQ(chosen("gather", {256, 2048, 32, 2}, 1), "take_columns");
  EXPECT_EQ(chosen("gather", {16384, 4096, 768}), "take_columns");
  EXPECT_EQ(chosen("gather", {16384, 4096, 769}), "take_quick") << "more than a block keeps";
  EXPECT_EQ(chosen("gather", {16384, 4096, 2047}), "take_quick") << "in the L2 as it is";
  EXPECT_EQ(chosen("gather", {16384, 4096, 2048}), "take_strips");
  EXPECT_EQ(chosen("gather", {16384, 4096, 8192}), "take_strips") << "no line along rows";
  EXPECT_EQ(chosen("gather", {16384, 4096, (1 << 20) + 1}), "take_quick") << "strips too long";
  EXPECT_EQ(chosen("gather", {127, 16384, 32}), "take_quick") << "too few for each row";
  EXPECT_EQ(chosen("gather", {16384, 4095, 32}), "take_quick") << "no whole vectors";
  EXPECT_EQ(chosen("gather", {16384, 4096, 32, 0, kIndexOfRow}), "take_rows");
  EXPECT_EQ(chosen("gather", {16, 4096, 4, 0, kIndexOfRow}), "take_rows");
  EXPECT_EQ(chosen("gather", {16, 4096, 4, 3, kIndexOfRow}, 1), "take_rows");
}

}  // namespace
}  // namespace ws::index_add
