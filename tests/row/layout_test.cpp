#include "catalogue/row_layout.hpp"

#include <gtest/gtest.h>

namespace ws {
namespace {

alignas(256) std::byte memory[1 << 16];

Tensor tensor(DType dtype, std::initializer_list<int64_t> shape, int64_t elements_in = 0) {
  Tensor result = Tensor::dense(dtype, shape);
  result.data = memory + elements_in * static_cast<int64_t>(size_of(dtype));
  return result;
}

template <int kMost>
std::string why_not(const RowLayout<kMost>& layout, int width) {
  Reason reason;
  Why why(&reason);
  const bool supported = rows_supported(layout, width, why);
  EXPECT_EQ(supported, reason.empty()) << reason;
  return reason;
}

TEST(RowLayout, EvenDimensionsBecomeOne) {
  const auto layout = row_layout(tensor(DType::kF16, {2, 3, 5, 8}));
  EXPECT_EQ(layout.rows, 30);
  EXPECT_EQ(layout.columns, 8);
  EXPECT_EQ(layout.outer, 1);
  EXPECT_EQ(layout.extents[0], 30);
  EXPECT_EQ(layout.stride(0), 8);
  EXPECT_EQ(layout.row_bytes(), 16);
}

TEST(RowLayout, ADimensionStaysWhereAnyOperandBreaksIt) {
  const Tensor x = tensor(DType::kF32, {2, 3, 4});
  const Tensor bias = broadcast(tensor(DType::kF32, {3, 4}), x);
  const auto layout = row_layout(x, bias);
  ASSERT_EQ(layout.outer, 2);
  for (int64_t row = 0; row < 6; ++row) {
    EXPECT_EQ(layout.offset(0, row), row * 4);
    EXPECT_EQ(layout.offset(1, row), row % 3 * 4);
  }
}

TEST(RowLayout, ScalarsRowsOfOneAndEmptyTensors) {
  const auto scalar = row_layout(tensor(DType::kF32, {}));
  EXPECT_EQ(scalar.rows, 1);
  EXPECT_EQ(scalar.columns, 1);
  Tensor narrow = tensor(DType::kF32, {5, 1});
  narrow.strides[1] = 77;  // torch leaves any number there
  EXPECT_EQ(row_layout(narrow).inner[0], 1);
  EXPECT_EQ(row_layout(tensor(DType::kF32, {0, 4})).rows, 0);
}

TEST(RowLayout, ATensorThatDoesNotExistTakesNoPart) {
  const Tensor x = tensor(DType::kF16, {4, 64});
  const auto layout = row_layout(x, Tensor{}, x);
  EXPECT_EQ(layout.size[1], 0);
  EXPECT_EQ(layout.outer, 1);
  EXPECT_EQ(why_not(layout, 8), "");
}

TEST(RowLayout, OperandsAreCutAlike) {
  const Tensor x = tensor(DType::kF16, {4, 64}, 3);
  EXPECT_EQ(why_not(row_layout(x, tensor(DType::kF16, {4, 64}, 8 * 300 + 3)), 8), "");
  EXPECT_EQ(why_not(row_layout(x, tensor(DType::kF32, {4, 64}, 8 * 300 + 3)), 8), "");
  const std::string apart = why_not(row_layout(x, tensor(DType::kF16, {4, 64})), 8);
  EXPECT_NE(apart.find("start 3 and 0 elements past"), std::string::npos) << apart;
  Tensor longer = x;
  longer.strides[0] = 68;
  EXPECT_NE(why_not(row_layout(x, longer), 8), "");
  EXPECT_EQ(why_not(row_layout(x, longer), 4), "");
}

TEST(RowLayout, GapsAndUnevenRowsAreRefusedWithTheirNumbers) {
  Tensor gaps = tensor(DType::kF32, {4, 8});
  gaps.strides = {24, 3};
  EXPECT_NE(why_not(row_layout(gaps), 4).find("not 3 apart"), std::string::npos);
  Tensor uneven = tensor(DType::kF32, {2, 3, 8});
  uneven.strides = {100, 8, 1};
  EXPECT_NE(why_not(row_layout(uneven), 4).find("not along 2 dimensions"), std::string::npos);
}

TEST(RowLayout, AlignedMeansStartStrideAndLength) {
  EXPECT_TRUE(rows_aligned(row_layout(tensor(DType::kF32, {4, 8})), 4));
  EXPECT_FALSE(rows_aligned(row_layout(tensor(DType::kF32, {4, 8}, 1)), 4));
  EXPECT_FALSE(rows_aligned(row_layout(tensor(DType::kF32, {4, 6})), 4));
  Tensor padded = tensor(DType::kF32, {4, 8});
  padded.strides[0] = 9;
  EXPECT_FALSE(rows_aligned(row_layout(padded), 4));
}

TEST(RowLayout, PartsHoldEveryVector) {
  for (const int64_t columns : {1, 7, 64, 1000, 1001}) {
    const auto layout = row_layout(tensor(DType::kF16, {1, columns}));
    for (const int64_t parts : {1, 2, 3, 16}) {
      EXPECT_GE(part_vectors(layout, 8, parts) * parts, columns / 8);
    }
  }
}

}  // namespace
}  // namespace ws
