#include "catalogue/problem.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "catalogue/catalogue.hpp"
#include "catalogue/fill.hpp"

namespace ws {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

TEST(Tensor, ScalarHasOneElement) {
  const Tensor t = Tensor::dense(DType::kF32, {});
  EXPECT_EQ(t.elements(), 1);
  EXPECT_TRUE(t.contiguous());
}

TEST(Element, ReadsEveryDTypeThroughStrides) {
  for (const DType dtype : kAllDTypes) {
    const auto kept = [dtype](double value) {
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

TEST(Attribute, ValuesGoBothWays) {
  constexpr std::array<std::string_view, 2> kChoices = {"none", "tanh"};
  const Attribute choice{.name = "approximate",
                         .kind = Attribute::Kind::kChoice,
                         .standard = 0,
                         .choices = kChoices,
                         .doc = ""};
  EXPECT_EQ(parse_value(choice, "tanh"), 1);
  EXPECT_EQ(describe_value(choice, 1), "tanh");
  try {
    parse_value(choice, "erf");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("one of none, tanh, not 'erf'"));
  }
  const Attribute number{
      .name = "alpha", .kind = Attribute::Kind::kFloat, .standard = 1, .choices = {}, .doc = ""};
  EXPECT_EQ(parse_value(number, "0.5"), 0.5);
  EXPECT_EQ(describe_value(number, 0.5), "0.5");
  EXPECT_THROW(parse_value(number, "half"), InvalidArgument);
  const Attribute count{
      .name = "k", .kind = Attribute::Kind::kInt, .standard = 1, .choices = {}, .doc = ""};
  EXPECT_THROW(parse_value(count, "1.5"), InvalidArgument);
  const Attribute flag{
      .name = "causal", .kind = Attribute::Kind::kBool, .standard = 0, .choices = {}, .doc = ""};
  EXPECT_EQ(parse_value(flag, "true"), 1);
  EXPECT_THROW(parse_value(flag, "maybe"), InvalidArgument);
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
