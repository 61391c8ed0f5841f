// What `verify` cannot ask of the suppression: the comparison without a division, at and around the
// middle between two floats, chains of boxes that each suppress the next, and the exponential that
// soft_nms is defined by.
#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "catalogue/catalogue.hpp"
#include "kernels/nms/decay.hpp"
#include "tests/kernels/refused.hpp"
#include "tests/kernels/tensor_of.hpp"
#include "tests/run.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::nms {
namespace {

struct DecideKernel {
  static constexpr int kThreads = 32;
  struct Arguments {
    const float* inter;
    const float* all;
    int* decisions;  // a bit for each of the three
    int count;
    Quotient quotient;
    Product product;
    Remainder remainder;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    for (int i = thread_index(); i < a.count; i += kThreads) {
      const float inter = thread::load(a.inter + i);
      const float all = thread::load(a.all + i);
      thread::store(a.decisions + i, (a.quotient(inter, all) ? 1 : 0) +
                                         (a.product(inter, all) ? 2 : 0) +
                                         (a.remainder(inter, all) ? 4 : 0));
    }
  }
};

// Products of the threshold, and of the middle above it, with numbers of few bits: quotients that
// are exactly these, and their neighbours; zeros, infinities, NaN, the least and the largest.
TEST(Nms, AProductAndARemainderDecideAsTheQuotientDoes) {
  std::mt19937 engine(11);
  std::uniform_real_distribution<float> uniform(0, 1);
  std::vector<float> thresholds = {
      0,         1,           0.5F,     0.25F,           1.0F / 3,      0x1p-149F,
      0x1p-127F, 0x1.8p-126F, 0x1p-20F, 0x1.fffffep-21F, 0x1.fffffep-1F};
  for (int i = 0; i < 8; ++i) thresholds.push_back(uniform(engine));
  for (const float threshold : thresholds) {
    std::vector<float> inter;
    std::vector<float> all;
    const auto add = [&](double above, float below) {
      const auto middle = static_cast<float>(above);
      for (const float one :
           {std::nextafter(middle, -INFINITY), middle, std::nextafter(middle, INFINITY)}) {
        inter.push_back(one);
        all.push_back(below);
      }
    };
    const double next = std::nextafter(threshold, INFINITY);
    for (const double quotient : {double{threshold}, (threshold + next) / 2, next}) {
      // 2 times the middle is a float of 25 bits at most: with some of these it is one of 24.
      for (const float below : {1.0F, 2.0F, 3.0F, 0x1p20F, 0x1.8p-20F, 0x1p-126F, 0x1p127F,
                                0x1p-60F, 0x1.8p-60F, 0x1.fffffep-61F}) {
        add(quotient * below, below);
      }
      for (int i = 0; i < 50; ++i) {
        const float below = std::ldexp(uniform(engine), static_cast<int>(engine() % 60) - 30);
        add(quotient * below, below);
      }
    }
    for (const float a : {0.0F, -0.0F, -1.0F, 1.0F, 0x1p-149F, 3e38F, INFINITY, NAN}) {
      for (const float b : {0.0F, -0.0F, -1.0F, 1.0F, 0x1p-149F, 3e38F, INFINITY, -INFINITY, NAN}) {
        if (a > 0 && b == 0 && std::signbit(b)) continue;  // a difference from what is above 0
        if (!(a >= 0) && !std::isnan(a)) continue;         // a product of what is not negative
        if (std::isinf(a) && b >= 0) continue;             // or from infinity
        inter.push_back(a);
        all.push_back(b);
      }
    }
    test::Buffer<float> inters(inter);
    test::Buffer<float> alls(all);
    test::Buffer<int> decisions(inter.size());
    test::run<DecideKernel>({.threads = 32}, {inters.data(), alls.data(), decisions.data(),
                                              static_cast<int>(inter.size()), Quotient(threshold),
                                              Product(threshold), Remainder(threshold)});
    bool is_ever[2] = {};
    for (size_t i = 0; i < inter.size(); ++i) {
      ASSERT_TRUE(decisions[i] == 0 || decisions[i] == 7)
          << inter[i] << " / " << all[i] << " > " << threshold << ": " << decisions[i];
      is_ever[decisions[i] == 7] = true;
    }
    EXPECT_TRUE(is_ever[0] && is_ever[1]) << threshold;
  }
}

// Box i overlaps i - 1 and i + 1 alone: every second one is kept, and each waits for the one
// before, over the bounds of tiles; the last are more tiles than a block compares its own with
// before it is told of them.
TEST(Nms, ChainsAreFollowedToTheirEnd) {
  for (const int64_t count : {63, 64, 65, 330, 700}) {
    test::Buffer<float> boxes(static_cast<size_t>(count) * 4);
    test::Buffer<float> scores(static_cast<size_t>(count));
    test::Buffer<int64_t> kept(static_cast<size_t>(count));
    test::Buffer<int64_t> found(1);
    for (int64_t i = 0; i < count; ++i) {
      const auto left = static_cast<float>(i);
      const float box[4] = {left, 0, left + 1.5F, 1};
      std::ranges::copy(box, boxes.data() + 4 * i);
      scores[static_cast<size_t>(i)] = static_cast<float>(count - i);
    }
    Problem problem;
    problem.operation = &operation_named("nms_indices");
    problem.tensor(0) = test::tensor_of(boxes, {count, 4});
    problem.tensor(1) = test::tensor_of(scores, {count});
    problem.tensor(3) = test::tensor_of(kept, {count});
    problem.tensor(4) = test::tensor_of(found, {});
    test::set(problem, "iou_threshold", 0.1);
    const AnyCall call(problem);
    for (const Rung* rung : family_of(*problem.operation).rungs) {
      if (rung->of(*problem.operation) == nullptr) continue;
      SCOPED_TRACE(rung->name);
      test::Buffer<std::byte> workspace(workspace_of(*rung, call).bytes + 1);
      ws::run(*rung, call, {.workspace = workspace.data()});
      runtime::synchronize_device();
      ASSERT_EQ(found[0], (count + 1) / 2);
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(kept[static_cast<size_t>(i)], 2 * i < count ? 2 * i : -1) << i;
      }
    }
  }
}

TEST(Nms, BestIsChosenByCount) {
  const auto best_of = [](int64_t count) {
    const Case chosen{.extents = {count}, .attributes = {Value(0.5)}};
    return best(AnyCall(make_problem(operation_named("nms_indices"), chosen, DType::kF32)), 90)
        .name;
  };
  EXPECT_EQ(best_of(0), "greedy");
  EXPECT_EQ(best_of(1), "product");
  EXPECT_EQ(best_of(1024), "product");
  EXPECT_EQ(best_of(1025), "remainder");
  EXPECT_EQ(best_of(32768), "remainder");
  EXPECT_EQ(best_of((int64_t{1} << 30) + 1), "greedy");
}

// Every exponent, and what becomes subnormal and 0.
TEST(SoftNms, TheExponentialIsWithinAnUlp) {
  EXPECT_EQ(exp_of(0), 1);
  EXPECT_EQ(exp_of(-0.0F), 1);
  EXPECT_EQ(exp_of(-INFINITY), 0);
  EXPECT_EQ(exp_of(-1e-12F), 1);
  constexpr int kPlaces = 45000;
  for (int i = 1; i <= kPlaces; ++i) {
    const float x = -105.0F * static_cast<float>(i) / kPlaces;
    const double exact = std::exp(static_cast<double>(x));
    const double ulp = std::exp2(std::max(std::ilogb(exact), -126) - 23);
    ASSERT_LE(std::abs(static_cast<double>(exp_of(x)) - exact), ulp) << x;
  }
}

struct Soft {
  std::vector<float> decayed;
  std::vector<int64_t> kept;
  int64_t count;
};

Soft soft_nms(const Rung& rung, const std::vector<float>& of_boxes, const std::vector<float>& of,
              Method method, double least) {
  const auto n = static_cast<int64_t>(of.size());
  test::Buffer<float> boxes(of_boxes);
  test::Buffer<float> scores(of);
  test::Buffer<float> decayed(of.size());
  test::Buffer<int64_t> kept(of.size());
  test::Buffer<int64_t> count(1);
  Problem problem;
  problem.operation = &operation_named("soft_nms");
  problem["boxes"] = test::tensor_of(boxes, {n, 4});
  problem["scores"] = test::tensor_of(scores, {n});
  problem["decayed"] = test::tensor_of(decayed, {n});
  problem["kept"] = test::tensor_of(kept, {n});
  problem["count"] = test::tensor_of(count, {});
  test::set(problem, "method", Value::choice(static_cast<int>(method)));
  test::set(problem, "score_threshold", least);
  const AnyCall call(problem);
  test::Buffer<std::byte> workspace(workspace_of(rung, call).bytes + 1);
  ws::run(rung, call, {.workspace = workspace.data()});
  runtime::synchronize_device();
  return {{decayed.begin(), decayed.end()}, {kept.begin(), kept.end()}, count[0]};
}

// By hand: box 1 overlaps box 0 by a half, box 2 is box 0 again, box 3 is nowhere near.
TEST(SoftNms, AnExampleByHand) {
  const std::vector<float> boxes = {0, 0, 2, 2, 0, 0, 2, 1, 0, 0, 2, 2, 9, 9, 10, 10};
  const std::vector<float> scores = {0.8F, 0.6F, 0.8F, 0.5F};
  for (const Rung* rung : family_of(operation_named("soft_nms")).rungs) {
    if (rung->of(operation_named("soft_nms")) == nullptr) continue;
    SCOPED_TRACE(rung->name);
    const Soft linear = soft_nms(*rung, boxes, scores, Method::kLinear, 0.1);
    EXPECT_THAT(linear.decayed, testing::ElementsAre(0.8F, 0.6F * 0.5F, 0, 0.5F));
    EXPECT_THAT(linear.kept, testing::ElementsAre(0, 3, 1, -1));
    EXPECT_EQ(linear.count, 3);
    // 0.8 and 0.6 times e^(-iou^2 / 0.5): once, and of box 1, which comes last, twice.
    const Soft gaussian = soft_nms(*rung, boxes, scores, Method::kGaussian, 0.2);
    EXPECT_THAT(gaussian.kept, testing::ElementsAre(0, 3, 1, -1));
    EXPECT_NEAR(gaussian.decayed[1], 0.6 * std::exp(-0.5), 1e-7);
    EXPECT_NEAR(gaussian.decayed[2], 0.8 * std::exp(-2.0) * std::exp(-0.5), 1e-7);
  }
}

TEST(SoftNms, BadCallsAreRefusedWithTheirNumbers) {
  Problem good;
  good.operation = &operation_named("soft_nms");
  good["boxes"] = Tensor::dense(DType::kF32, {5, 4});
  good["scores"] = Tensor::dense(DType::kF32, {5});
  const auto told = [&](const auto& change) { return test::told(good, change); };
  using testing::HasSubstr;
  EXPECT_EQ(told([](Problem&) {}), "accepted");
  EXPECT_THAT(told([](Problem& p) { p["scores"] = Tensor::dense(DType::kF32, {6}); }),
              HasSubstr("soft_nms takes scores of f32 [5], not f32 [6]"));
  EXPECT_THAT(told([](Problem& p) { test::set(p, "iou_threshold", 1.5); }),
              HasSubstr("from 0 to 1, not 1.5"));
  for (const double sigma : {0.0, -1.0, 1e-60, 1e60}) {
    EXPECT_THAT(told([&](Problem& p) { test::set(p, "sigma", sigma); }),
                HasSubstr("a sigma that is above 0 and finite in f32"));
  }
  EXPECT_THAT(told([](Problem& p) { test::set(p, "score_threshold", 1e60); }),
              HasSubstr("a score_threshold that is finite in f32, not 1e+60"));
}

}  // namespace
}  // namespace ws::nms
