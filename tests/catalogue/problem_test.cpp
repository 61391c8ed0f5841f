#include "catalogue/problem.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "catalogue/fill.hpp"

namespace ws {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(DType, NamesGoBothWays) {
  for (const DType dtype : kAllDTypes) {
    EXPECT_EQ(dtype_from(to_string(dtype)), dtype);
  }
  EXPECT_THROW(dtype_from("float32"), InvalidArgument);
}

TEST(DTypes, IsASet) {
  constexpr DTypes kSome = {DType::kF32, DType::kBf16};
  static_assert(kSome.has(DType::kBf16) && !kSome.has(DType::kF16) && !kSome.empty());
  static_assert((kSome & kHalves).has(DType::kBf16) && !(kSome & kHalves).has(DType::kF32));
}

TEST(Tensor, DenseIsRowMajor) {
  const Tensor t = Tensor::dense(DType::kF16, {2, 3, 5});
  EXPECT_THAT(std::vector(t.strides.begin(), t.strides.begin() + 3), ElementsAre(15, 5, 1));
  EXPECT_EQ(t.elements(), 30);
  EXPECT_TRUE(t.contiguous());
  EXPECT_EQ(t.describe(), "f16 [2, 3, 5]");
}

TEST(Tensor, DescribesWhatIsNotContiguous) {
  Tensor t = Tensor::dense(DType::kF32, {2, 3});
  t.strides[0] = 8;
  EXPECT_FALSE(t.contiguous());
  EXPECT_EQ(t.describe(), "f32 [2, 3] strides [8, 1]");
  // An extent of 1 has any stride.
  Tensor row = Tensor::dense(DType::kF32, {1, 3});
  row.strides[0] = 77;
  EXPECT_TRUE(row.contiguous());
}

TEST(Tensor, RefusesTooManyDimensions) {
  EXPECT_THROW(Tensor::dense(DType::kF32, {1, 1, 1, 1, 1, 1, 1}), InvalidArgument);
  EXPECT_THROW(Tensor::dense(DType::kF32, {-1}), InvalidArgument);
}

TEST(Tensor, RefusesWhatNoMemoryHolds) {
  const auto error_of = [](std::initializer_list<int64_t> shape) -> std::string {
    try {
      (void)Tensor::dense(DType::kF32, shape);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error_of({4294967296, 4294967296}), HasSubstr("[4294967296, 4294967296]"));
  EXPECT_THAT(error_of({4611686018427387904, 4}), HasSubstr("larger than any memory"));
  EXPECT_THAT(error_of({3037000500, 3037000500}), HasSubstr("larger than any memory"));
  EXPECT_EQ(error_of({0, 3037000500}), "no error");
}

TEST(Tensor, NoneIsNoScalar) {
  EXPECT_FALSE(Tensor{}.exists());
  EXPECT_EQ(Tensor{}.elements(), 0);
  EXPECT_EQ(Tensor{}.describe(), "none");
}

TEST(Tensor, BroadcastsAsNumPyDoes) {
  const Tensor to = Tensor::dense(DType::kF32, {2, 3, 4});
  const Tensor row = broadcast(Tensor::dense(DType::kF16, {4}), to);
  EXPECT_EQ(row.describe(), "f16 [2, 3, 4] strides [0, 0, 1]");
  EXPECT_EQ(broadcast(Tensor::dense(DType::kF16, {3, 1}), to).describe(),
            "f16 [2, 3, 4] strides [0, 1, 0]");
  EXPECT_FALSE(broadcast(Tensor::dense(DType::kF16, {3}), to).exists());
  EXPECT_FALSE(broadcast(to, Tensor::dense(DType::kF16, {4})).exists());
  EXPECT_EQ(without_repeats(row).elements(), 4);
}

TEST(Problem, FindsNoTensorWhereTheOperationHasNone) {
  Problem problem;
  problem.operation = &operation_named("rms_norm");
  problem.tensors[0] = Tensor::dense(DType::kF32, {2, 4});
  EXPECT_EQ(&problem.find("x"), &problem.tensor(0));
  EXPECT_FALSE(problem.find("mean").exists());
  EXPECT_THROW((void)problem["mean"], Error);
}

TEST(Problem, LeastTrafficCountsEachElementOnce) {
  Problem problem;
  problem.operation = &operation_named("attention");
  EXPECT_EQ(least_traffic(problem), 0);  // no tensor exists
  const Tensor to = Tensor::dense(DType::kF32, {2, 3, 4});
  problem.tensors[0] = broadcast(Tensor::dense(DType::kF16, {4}), to);
  problem.tensors[2] = to;
  EXPECT_EQ(least_traffic(problem), 4 * 2 + 24 * 4);
}

Problem of_keys_and_values(int64_t dim, int64_t value_dim) {
  Problem problem;
  problem.operation = &operation_named("attention");
  problem["q"] = Tensor::dense(DType::kF16, {1, 8, 1, dim});
  problem["k"] = Tensor::dense(DType::kF16, {1, 1, 5, dim});
  problem["v"] = Tensor::dense(DType::kF16, {1, 1, 5, value_dim});
  return problem;
}

TEST(Problem, ATensorMayLieInAnother) {
  Problem problem = of_keys_and_values(6, 4);
  const double apart = least_traffic(problem);
  share_memory(problem, 1, 2);
  EXPECT_EQ(problem["v"].strides, problem["k"].strides);
  EXPECT_EQ(holder_of(problem, 0), 0);
  EXPECT_EQ(holder_of(problem, 1), 1);
  EXPECT_EQ(holder_of(problem, 2), 1);
  EXPECT_THAT(problem.describe(), HasSubstr("[1, 1, 5, 4] strides [30, 30, 6, 1] in k"));
  EXPECT_EQ(least_traffic(problem), apart - 5 * 4 * 2);
}

TEST(Problem, ALongerTensorLiesInNoShorterOne) {
  Problem problem = of_keys_and_values(4, 6);
  try {
    share_memory(problem, 1, 2);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "attention: f16 [1, 1, 5, 6] does not lie in f16 [1, 1, 5, 4]");
  }
  std::array<std::byte, 60> memory{};
  problem["k"].data = problem["v"].data = memory.data();
  EXPECT_EQ(holder_of(problem, 2), 2) << "begins there and ends later";
}

TEST(Tensor, ScalarHasOneElement) {
  const Tensor t = Tensor::dense(DType::kF32, {});
  EXPECT_EQ(t.elements(), 1);
  EXPECT_TRUE(t.contiguous());
}

TEST(Element, ReadsEveryDTypeThroughStrides) {
  for (const DType dtype : kAllDTypes) {
    const auto kept = [dtype](double value) {
      if (dtype == DType::kU8) return std::max(value, 0.0);
      return dtype == DType::kBool ? static_cast<double>(value != 0) : value;
    };
    Tensor t = Tensor::dense(dtype, {2, 3});
    t.strides[0] = 4;
    alignas(16) std::array<std::byte, 64> memory{};
    t.data = memory.data();
    for (int64_t i = 0; i < 6; ++i) set_element(t, i, static_cast<double>(i) - 2);
    for (int64_t i = 0; i < 6; ++i) {
      EXPECT_EQ(element(t, i), kept(static_cast<double>(i) - 2)) << to_string(dtype);
    }
    EXPECT_EQ(element(t, 3), 1) << "row 1 starts at its stride";
  }
}

TEST(Fill, DependsOnSeedAndIndexAlone) {
  std::vector<float> one(100'000);
  std::vector<float> two(one.size());
  Tensor t = Tensor::dense(DType::kF32, {static_cast<int64_t>(one.size())});
  t.data = one.data();
  fill_normal(t, 7);
  t.data = two.data();
  fill_normal(t, 7);
  EXPECT_EQ(one, two);
  fill_normal(t, 8);
  EXPECT_NE(one, two);
  double mean = 0;
  double square = 0;
  for (const float x : one) {
    mean += x;
    square += static_cast<double>(x) * x;
  }
  EXPECT_NEAR(mean / 1e5, 0, 0.02);
  EXPECT_NEAR(square / 1e5, 1, 0.02);
}

TEST(Fill, OfALargeTensorRepeatsAndRowsDiffer) {
  constexpr int64_t kNormalPeriod = 16777213;  // of fill.cpp
  constexpr int64_t kColumns = 4096;
  Tensor t = Tensor::dense(DType::kE4m3, {kNormalPeriod / kColumns + 3, kColumns});
  std::vector<uint8_t> bytes(static_cast<size_t>(t.elements()));
  t.data = bytes.data();
  fill_normal(t, 7);
  const auto period = static_cast<size_t>(kNormalPeriod);
  EXPECT_TRUE(std::equal(bytes.begin() + kNormalPeriod, bytes.end(), bytes.begin()));
  EXPECT_NE(bytes[period - 1], 0) << "written to its end";
  const auto row = [&](int64_t r) { return bytes.begin() + r * kColumns; };
  for (const int64_t r : {t.extent(0) - 1, t.extent(0) - 2}) {
    EXPECT_FALSE(std::equal(row(r), row(r) + kColumns, row(0))) << r;
  }
}

TEST(Fill, OfIntegersIsEveryNumberOfItsRange) {
  const auto range_of = [](DType dtype) {
    std::vector<int64_t> memory(20'000);
    const Operation& operation = operation_named("relu");
    Problem problem;
    problem.operation = &operation;
    problem.tensor(0) = Tensor::dense(dtype, {20'000});
    problem.tensor(0).data = memory.data();
    fill_normal_input(problem, 0, 3);
    double least = INFINITY;
    double most = -INFINITY;
    double sum = 0;
    for (int64_t i = 0; i < 20'000; ++i) {
      const double number = element(problem.tensor(0), i);
      least = std::min(least, number);
      most = std::max(most, number);
      sum += number;
    }
    EXPECT_NEAR(sum / 20'000, (least + most) / 2, (most - least) / 50) << to_string(dtype);
    return std::pair(least, most);
  };
  EXPECT_EQ(range_of(DType::kI32), std::pair(-100.0, 100.0));
  EXPECT_EQ(range_of(DType::kI8), std::pair(-100.0, 100.0));
  EXPECT_EQ(range_of(DType::kU8), std::pair(0.0, 100.0));
  EXPECT_EQ(range_of(DType::kBool), std::pair(0.0, 1.0));
}

TEST(ParallelFor, LeavesWhatIsSmallToTheCaller) {
  std::vector<std::pair<int64_t, int64_t>> pieces;
  const auto note = [&](int64_t first, int64_t last) { pieces.emplace_back(first, last); };
  parallel_for(0, 7, note);
  EXPECT_TRUE(pieces.empty());
  parallel_for(1, 7, note);
  parallel_for(13, 7, note);
  EXPECT_THAT(pieces, ElementsAre(Pair(0, 1), Pair(0, 13)));
  std::atomic<int> count = 0;
  parallel_for(14, 7, [&](int64_t, int64_t) { ++count; });
  EXPECT_EQ(count, 2);
}

TEST(ParallelFor, CoversEveryIndexOnceAndPassesErrorsOn) {
  std::vector<int> hits(1000);
  parallel_for(1000, 7, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) ++hits[static_cast<size_t>(i)];
  });
  EXPECT_EQ(hits, std::vector<int>(1000, 1));
  EXPECT_THROW(parallel_for(1000, 7, [](int64_t, int64_t) { throw Error("no"); }), Error);
}

}  // namespace
}  // namespace ws
