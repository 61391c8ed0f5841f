// What `verify` cannot ask of upsample: which pixels copy one, for every size; calls that are
// refused.
#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "catalogue/catalogue.hpp"
#include "kernels/upsample/images.hpp"
#include "kernels/upsample/operations.hpp"
#include "tests/kernels/refused.hpp"
#include "tests/run.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::upsample {
namespace {

using testing::HasSubstr;

// What first_of and end_of guess and put right is what source says, and ShortAxis.
TEST(Upsample, RangesOfCopiesAreWhatSourcesSay) {
  const auto check = [](const Axis& axis) {
    int64_t next = 0;
    for (int64_t i = 0; i < axis.from; ++i) {
      ASSERT_EQ(axis.first_of(i), next) << axis.from << " to " << axis.to << " by " << axis.step;
      while (next < axis.to && axis.source(next) == i) ++next;
      ASSERT_EQ(axis.end_of(i), next) << axis.from << " to " << axis.to << " by " << axis.step;
    }
    ASSERT_EQ(next, axis.to);
    const ShortAxis in_short(axis);
    for (int64_t i = 0; i < axis.to; ++i) {
      ASSERT_EQ(in_short.source(static_cast<int>(i)), axis.source(i)) << axis.step << " " << i;
    }
  };
  for (int64_t from = 1; from < 40; ++from) {
    for (int64_t to = 1; to < 90; ++to) {
      for (const float shift : {0.0F, 0.5F}) {
        check({from, to, static_cast<float>(from) / static_cast<float>(to), shift});
        for (const float step : {0.1F, 1 / 1.7F, 1.0F, 2.5F}) check({from, to, step, shift});
      }
    }
  }
}

// The last columns that f32 has in steps of one, and far more than are copied.
TEST(Upsample, ShortAxesAreRightToTheirEnd) {
  for (const int64_t from : {ShortAxis::kMost, ShortAxis::kMost - 1, int64_t{3}}) {
    for (const float step : {0.3F, 1.0F, 0x1p30F}) {
      const Axis axis{from, ShortAxis::kMost, step, 0.5F};
      for (int64_t i = ShortAxis::kMost - 9; i < ShortAxis::kMost; ++i) {
        ASSERT_EQ(ShortAxis(axis).source(static_cast<int>(i)), axis.source(i)) << from << " " << i;
      }
    }
  }
}

// Of no pixel is an element lost that torch's formula makes it a part of.
TEST(Upsample, RangesOfPartsAreWhatSourcesSay) {
  const auto check = [](const Axis& axis) {
    const LinearAxis linear(axis);
    for (int pixel = 0; pixel < linear.from; ++pixel) {
      int next = linear.first_with(pixel);
      for (int i = 0; i < linear.to; ++i) {
        const int before = LinearAxis::before(linear.source(i));
        if (pixel != before && pixel != before + 1) continue;
        ASSERT_EQ(i, next) << axis.from << " to " << axis.to << " by " << axis.step;
        ++next;
      }
      ASSERT_EQ(linear.end_with(pixel), next) << axis.from << " to " << axis.to;
    }
  };
  for (int64_t from = 1; from < 20; ++from) {
    for (int64_t to = 1; to < 50; ++to) {
      const float corners = to > 1 ? static_cast<float>(from - 1) / static_cast<float>(to - 1) : 0;
      check({from, to, corners, 0});
      check({from, to, static_cast<float>(from) / static_cast<float>(to), 0.5F});
      for (const float step : {0.1F, 1 / 1.7F, 2.5F}) check({from, to, step, 0.5F});
    }
  }
}

// The last numbers that f32 has: no guess goes astray, every source is a pixel.
TEST(Upsample, LinearAxesAreRightToTheirEnd) {
  for (const float step : {1.0F, 0.3F, 0x1p30F}) {
    const LinearAxis linear(Axis{LinearAxis::kMost, LinearAxis::kMost, step, 0.5F});
    for (int i = linear.to - 9; i < linear.to; ++i) {
      ASSERT_LT(LinearAxis::before(linear.source(i)), linear.from);
      ASSERT_LT(linear.after(linear.source(i)), linear.from);
    }
    const int pixel = LinearAxis::before(linear.source(linear.to - 1));
    ASSERT_EQ(linear.end_with(pixel), linear.to) << step;
    ASSERT_LT(linear.first_with(pixel), linear.to) << step;
  }
}

TEST(Upsample, BadCallsAreRefusedWithTheirNumbers) {
  Problem good;
  good.operation = &operation_named("upsample_nearest2d");
  good["x"] = Tensor::dense(DType::kF16, {1, 2, 3, 4});
  test::set(good, "height", 6);
  test::set(good, "width", 8);
  const auto told = [&](const auto& change) { return test::told(good, change); };
  EXPECT_EQ(told([](Problem&) {}), "accepted");
  EXPECT_THAT(told([](Problem& p) { p["x"] = Tensor::dense(DType::kF16, {2, 3, 4}); }),
              HasSubstr("of 4 dimensions, got f16 [2, 3, 4]"));
  EXPECT_THAT(told([](Problem& p) { p["x"] = Tensor::dense(DType::kF16, {1, 2, 0, 4}); }),
              HasSubstr("not 6 x 8 of f16 [1, 2, 0, 4]"));
  EXPECT_THAT(told([](Problem& p) { test::set(p, "height", 0); }), HasSubstr("not 0 x 8"));
  EXPECT_THAT(told([](Problem& p) { test::set(p, "scale_width", -2.0); }),
              HasSubstr("scale_width is from 2^-30 to 2^30, not -2"));
  good.operation = &operation_named("upsample_bilinear2d");
  EXPECT_EQ(told([](Problem&) {}), "accepted");
  EXPECT_THAT(told([](Problem& p) { test::set(p, "height", (1 << 24) + 1); }),
              HasSubstr("sizes are from 1 to 16777216, not 16777217 x 8"));
}

// ---- Numbers that are not finite ----------------------------------------------------------------

// Two planes of T and what a rung makes of them.
template <class T>
class Images {
 public:
  Images(std::string_view operation, int64_t rows, int64_t columns, int64_t height, int64_t width)
      : in_(static_cast<size_t>(2 * rows * columns)),
        out_(static_cast<size_t>(2 * height * width)),
        columns_(columns) {
    Problem problem;
    problem.operation = &operation_named(operation);
    problem.tensor(0) = Tensor::dense(kDType<T>, {1, 2, rows, columns});
    test::set(problem, "height", height);
    test::set(problem, "width", width);
    problem_ = AnyCall(problem).problem();
    problem_.tensor(0).data = in_.data();
    problem_.tensor(1).data = out_.data();
    for (size_t i = 0; i < in_.size(); ++i) in_[i] = T(static_cast<float>(i * 7 % 11) - 5);
  }
  // In the first plane; rows of the second follow its own.
  void set(int64_t row, int64_t column, float value) {
    in_[static_cast<size_t>(row * columns_ + column)] = T(value);
  }
  // Of each rung that takes them.
  std::map<std::string, std::vector<float>> results() {
    std::map<std::string, std::vector<float>> all;
    const AnyCall call(problem_);
    for (const Rung* rung : family_of(*problem_.operation).rungs) {
      if (!takes(*rung, call, runtime::capability())) continue;
      run(*rung, call, {});
      runtime::synchronize(nullptr);
      std::vector<float>& result = all[std::string(rung->name)];
      for (const T value : out_) result.push_back(static_cast<float>(value));
    }
    return all;
  }

 private:
  test::Buffer<T> in_;
  test::Buffer<T> out_;
  int64_t columns_;
  Problem problem_;
};

// Where bilinear_naive has none, others have none, too: products with zeros go no further.
template <class T>
void check_infinite(std::string_view operation, int64_t rows, int64_t columns, int64_t height,
                    int64_t width) {
  Images<T> images(operation, rows, columns, height, width);
  images.set(5, 7, INFINITY);
  images.set(rows - 1, columns - 1, NAN);
  images.set(12, 20, -INFINITY);
  const auto results = images.results();
  const std::vector<float>& expected = results.at("bilinear_naive");
  EXPECT_GT(std::ranges::count_if(expected, [](float v) { return !std::isfinite(v); }), 2);
  for (const auto& [name, result] : results) {
    for (size_t i = 0; i < result.size(); ++i) {
      ASSERT_EQ(std::isfinite(result[i]), std::isfinite(expected[i])) << name << " at " << i;
      if (!std::isfinite(expected[i])) continue;
      ASSERT_NEAR(result[i], expected[i], 0.1) << name << " at " << i;
    }
  }
}

TEST(Upsample, NumbersThatAreNotFiniteGoNoFurther) {
  // Of these the tensor cores add up the gradients of the first two.
  for (const auto& [small, large] : {std::pair<int64_t, int64_t>{24, 40}, {40, 40}, {32, 64}}) {
    check_infinite<half>("upsample_bilinear2d", small, small, large, large);
    check_infinite<bf16>("upsample_bilinear2d", small, small, large, large);
    check_infinite<half>("upsample_bilinear2d_backward", large, large, small, small);
    check_infinite<bf16>("upsample_bilinear2d_backward", large, large, small, small);
  }
}

// Sums of columns that f16 has not, of which those of rows are in it again.
TEST(Upsample, SumsBetweenTwoProductsMayBeLarge) {
  Images<half> images("upsample_bilinear2d_backward", 48, 48, 32, 32);
  for (int64_t row = 10; row < 14; ++row) {
    for (int64_t column = 20; column < 28; ++column) {
      images.set(row, column, column % 2 == 0 ? 60000.0F : -60000.0F);
    }
  }
  const auto results = images.results();
  ASSERT_EQ(results.contains("bilinear_backward_products"), runtime::capability() >= 90);
  for (const auto& [name, result] : results) {
    for (size_t i = 0; i < result.size(); ++i) {
      const float expected = results.at("bilinear_naive")[i];
      ASSERT_TRUE(std::isfinite(expected));
      ASSERT_NEAR(result[i], expected, 0.1 + std::abs(expected) / 256) << name << " at " << i;
    }
  }
}

// ---- Choices ------------------------------------------------------------------------------------

// What a call of `planes` images of side `from`, or the gradient of such images, gets on an H200.
std::string chosen(std::string_view operation, DType dtype, int64_t planes, int64_t side, int to) {
  const Case of{.extents = {1, planes, side, side}, .attributes = {int64_t{to}, int64_t{to}}};
  return std::string(best(AnyCall(make_problem(operation_named(operation), of, dtype)), 90).name);
}

TEST(Upsample, RungsThatCallsGet) {
  const std::string_view backward = "upsample_nearest2d_backward";
  EXPECT_EQ(chosen(backward, DType::kF16, 64, 400, 256), "backward_ahead");
  EXPECT_EQ(chosen(backward, DType::kF32, 64, 400, 256), "backward_bands");
  EXPECT_EQ(chosen(backward, DType::kBf16, 64, 512, 256), "backward_twice");
  EXPECT_EQ(chosen(backward, DType::kF16, 4, 400, 256), "backward_bands") << "too few for a GPU";
  EXPECT_EQ(chosen(backward, DType::kF16, 64, 256, 400), "backward_bands") << "few copies";
  const std::string_view bilinear = "upsample_bilinear2d";
  EXPECT_EQ(chosen(bilinear, DType::kF16, 64, 256, 400), "bilinear_ahead");
  EXPECT_EQ(chosen(bilinear, DType::kF32, 64, 256, 400), "bilinear_bands");
  EXPECT_EQ(chosen(bilinear, DType::kBf16, 64, 256, 512), "bilinear_twice");
  EXPECT_EQ(chosen(bilinear, DType::kF16, 64, 256, 500), "bilinear_bands") << "grows by much";
  EXPECT_EQ(chosen(bilinear, DType::kF16, 2, 256, 400), "bilinear_bands");
  const std::string_view gradient = "upsample_bilinear2d_backward";
  EXPECT_EQ(chosen(gradient, DType::kF16, 64, 400, 256), "bilinear_backward_products");
  EXPECT_EQ(chosen(gradient, DType::kF32, 64, 400, 256), "bilinear_backward_fours");
  EXPECT_EQ(chosen(gradient, DType::kBf16, 64, 480, 256), "bilinear_backward_fours") << "by much";
  EXPECT_EQ(chosen(gradient, DType::kBf16, 64, 512, 256), "bilinear_backward_twice");
  EXPECT_EQ(chosen(gradient, DType::kF16, 64, 264, 256), "bilinear_backward_fours") << "by little";
  EXPECT_EQ(chosen(gradient, DType::kF16, 4, 400, 256), "bilinear_backward_fours");
}

}  // namespace
}  // namespace ws::upsample
