#include "catalogue/overlap.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "catalogue/fill.hpp"

namespace ws {
namespace {

alignas(256) std::byte memory[1 << 16];

Tensor at(int64_t byte, DType dtype, std::vector<int64_t> shape, std::vector<int64_t> strides) {
  Tensor tensor = Tensor::dense(dtype, shape);
  std::ranges::copy(strides, tensor.strides.begin());
  tensor.data = memory + byte;
  return tensor;
}

// Every byte of the tensor.
std::multiset<int64_t> bytes_of(const Tensor& tensor) {
  std::multiset<int64_t> bytes;
  const auto size = static_cast<int64_t>(size_of(tensor.dtype));
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const int64_t first =
        static_cast<std::byte*>(tensor.data) - memory + offset_of(tensor, i) * size;
    for (int64_t b = 0; b < size; ++b) bytes.insert(first + b);
  }
  return bytes;
}

TEST(Overlap, KnowsWhatCallersDo) {
  const Tensor whole = at(4096, DType::kF32, {8, 16}, {16, 1});
  EXPECT_TRUE(overlap(whole, whole));
  EXPECT_TRUE(overlap(whole, at(4096, DType::kF32, {16, 8}, {1, 16})));
  EXPECT_FALSE(overlap(whole, at(4096 + 512, DType::kF32, {8, 16}, {16, 1}))) << "side by side";
  EXPECT_TRUE(overlap(whole, at(4096 + 511, DType::kI8, {1}, {1}))) << "the last byte";
  // The two halves of each row, the even and the odd columns, the real and the imaginary parts.
  EXPECT_FALSE(
      overlap(at(4096, DType::kF32, {8, 8}, {16, 1}), at(4096 + 32, DType::kF32, {8, 8}, {16, 1})));
  EXPECT_FALSE(
      overlap(at(4096, DType::kF32, {8, 8}, {16, 2}), at(4096 + 4, DType::kF32, {8, 8}, {16, 2})));
  EXPECT_TRUE(
      overlap(at(4096, DType::kF32, {8, 9}, {16, 1}), at(4096 + 32, DType::kF32, {8, 8}, {16, 1})));
  // Strides that are entangled: the even elements and the odd ones all the same.
  const auto every_other = [](int64_t element) {
    return at(4096 + element * 4, DType::kF32, {3, 3}, {6, 4});
  };
  for (const int64_t by : {1, 7}) {
    EXPECT_FALSE(overlap(every_other(0), every_other(by)));
    EXPECT_FALSE(overlap(every_other(by), every_other(0)));
    EXPECT_TRUE(overlap(every_other(0), every_other(by - 1)));
  }
  // Backwards, as NumPy has it; empty; without data.
  EXPECT_TRUE(overlap(whole, at(4096 + 60, DType::kF32, {16}, {-1})));
  EXPECT_FALSE(overlap(whole, at(4096, DType::kF32, {0, 4}, {4, 1})));
  EXPECT_FALSE(overlap(whole, Tensor{}));
}

TEST(Overlap, AgreesWithCountingBytes) {
  // Never "apart" where they meet; "together" where they do not only if strides are entangled.
  int told_apart = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    const auto draw = [&](uint64_t what, int64_t most) {
      return static_cast<int64_t>(random_bits(seed, what) % static_cast<uint64_t>(most));
    };
    const auto tensor = [&](uint64_t k) {
      const DType dtype = draw(k, 2) == 0 ? DType::kF16 : DType::kF32;
      const int64_t size = static_cast<int64_t>(size_of(dtype));
      return at(8192 + draw(k + 1, 40) * size, dtype, {1 + draw(k + 2, 4), 1 + draw(k + 3, 5)},
                {draw(k + 4, 24) - 8, 1 + draw(k + 5, 3)});
    };
    const Tensor a = tensor(0);
    const Tensor b = tensor(10);
    const std::multiset<int64_t> first = bytes_of(a);
    bool meet = false;
    for (const int64_t byte : bytes_of(b)) meet = meet || first.contains(byte);
    if (meet) {
      EXPECT_TRUE(overlap(a, b)) << a << " and " << b;
    } else {
      told_apart += overlap(a, b) ? 0 : 1;
    }
    const bool repeats = std::set(first.begin(), first.end()).size() != first.size();
    if (repeats) {
      EXPECT_TRUE(overlaps_itself(a)) << a;
    }
  }
  EXPECT_GT(told_apart, 500);
}

TEST(OverlapsItself, OnlyWhereElementsShareAnAddress) {
  EXPECT_FALSE(overlaps_itself(at(0, DType::kF32, {3, 4}, {4, 1})));
  EXPECT_FALSE(overlaps_itself(at(0, DType::kF32, {3, 4}, {1, 3}))) << "transposed";
  EXPECT_FALSE(overlaps_itself(at(0, DType::kF32, {3, 4}, {9, 2}))) << "with gaps";
  EXPECT_FALSE(overlaps_itself(at(0, DType::kF32, {1, 4}, {0, 1})));
  EXPECT_TRUE(overlaps_itself(at(0, DType::kF32, {3, 4}, {0, 1})));
  EXPECT_TRUE(overlaps_itself(at(0, DType::kF32, {3, 3}, {1, 1})));
}

TEST(Coincide, IsTheSameElementsInTheSameOrder) {
  const Tensor whole = at(0, DType::kF32, {4, 4}, {4, 1});
  EXPECT_TRUE(coincide(whole, whole));
  EXPECT_FALSE(coincide(whole, at(0, DType::kF32, {4, 4}, {1, 4})));
  EXPECT_FALSE(coincide(whole, at(0, DType::kI32, {4, 4}, {4, 1})));
  EXPECT_FALSE(coincide(whole, at(4, DType::kF32, {4, 4}, {4, 1})));
  EXPECT_FALSE(coincide(whole, at(0, DType::kF32, {4}, {1})));
  const Tensor two = at(0, DType::kF32, {1, 2}, {4, 1});
  EXPECT_TRUE(coincide(two, at(0, DType::kF32, {1, 2}, {9, 1}))) << "there is no second row";
  EXPECT_FALSE(coincide(two, at(0, DType::kF32, {1, 2}, {4, 2})));
}

}  // namespace
}  // namespace ws
