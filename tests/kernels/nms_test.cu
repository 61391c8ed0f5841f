// What `verify` cannot ask of the suppression: the comparison without a division, at and around the
// middle between two floats, and chains of boxes that each suppress the next.
#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "catalogue/catalogue.hpp"
#include "kernels/nms/boxes.hpp"
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
    int* decisions;  // a bit for each of the two
    int count;
    Quotient quotient;
    Product product;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    for (int i = thread_index(); i < a.count; i += kThreads) {
      const float inter = thread::load(a.inter + i);
      const float all = thread::load(a.all + i);
      thread::store(a.decisions + i,
                    (a.quotient(inter, all) ? 1 : 0) + (a.product(inter, all) ? 2 : 0));
    }
  }
};

// Products of the threshold, and of the middle above it, with numbers of few bits: quotients that
// are exactly these, and their neighbours; zeros, infinities, NaN, the least and the largest.
TEST(Nms, AProductDecidesAsTheQuotientDoes) {
  std::mt19937 engine(11);
  std::uniform_real_distribution<float> uniform(0, 1);
  std::vector<float> thresholds = {0, 1, 0.5F, 0.25F, 1.0F / 3, 0x1p-149F, 0x1p-127F, 0x1.8p-126F};
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
      for (const float below : {1.0F, 2.0F, 3.0F, 0x1p20F, 0x1.8p-20F, 0x1p-126F, 0x1p127F}) {
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
    test::run<DecideKernel>(
        {.threads = 32}, {inters.data(), alls.data(), decisions.data(),
                          static_cast<int>(inter.size()), Quotient(threshold), Product(threshold)});
    bool is_ever[2] = {};
    for (size_t i = 0; i < inter.size(); ++i) {
      ASSERT_TRUE(decisions[i] == 0 || decisions[i] == 3)
          << inter[i] << " / " << all[i] << " > " << threshold << ": " << decisions[i];
      is_ever[decisions[i] == 3] = true;
    }
    EXPECT_TRUE(is_ever[0] && is_ever[1]) << threshold;
  }
}

// Box i overlaps i - 1 and i + 1 alone: every second one is kept, and each waits for the one
// before, over the bounds of tiles.
TEST(Nms, ChainsAreFollowedToTheirEnd) {
  for (const int64_t count : {63, 64, 65, 330}) {
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
  EXPECT_EQ(best_of(1000), "product");
  EXPECT_EQ(best_of(32768), "sorted_runs");
  EXPECT_EQ(best_of(200000), "greedy");
}

}  // namespace
}  // namespace ws::nms
