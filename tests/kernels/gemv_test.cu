// What `verify` cannot ask of the gemv family: infinities beside what a tile leaves out, strides as
// torch and NumPy leave them, and which rung a call gets.
#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "catalogue/catalogue.hpp"
#include "kernels/gemv/operations.hpp"
#include "tests/run.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::gemv {
namespace {

using enum Gemv::Layout;

const Operation& operation() { return operation_named("gemv"); }

// A case with memory: inputs random, the output NaN, and NaN between the rows.
template <class T>
class Instance {
 public:
  explicit Instance(const Case& chosen)
      : problem_(AnyCall(make_problem(operation(), chosen, kDType<T>)).problem()) {
    std::mt19937 engine(5);
    std::normal_distribution<float> normal;
    for (int i = 0; i < 3; ++i) {
      Tensor& tensor = problem_.tensor(i);
      const auto size = static_cast<size_t>(tensor.shape[0] * tensor.strides[0] + 1);
      buffers_.push_back(std::make_unique<test::Buffer<T>>(size));
      std::ranges::fill(*buffers_.back(), T(NAN));
      tensor.data = buffers_.back()->data();
      for (int64_t at = 0; i < 2 && at < tensor.elements(); ++at) {
        tensor.as<T>()[offset_of(tensor, at)] = T(normal(engine));
      }
    }
  }

  Problem& problem() { return problem_; }
  AnyCall call() const { return AnyCall(problem_); }
  std::string best_rung() const { return std::string(best(call(), 90).name); }

  // Every rung that takes the problem, on a fresh output.
  void expect_right() {
    const AnyCall checked = call();
    int takers = 0;
    for (const Rung* rung : family_of(operation()).rungs) {
      if (!takes(*rung, checked, runtime::capability())) continue;
      SCOPED_TRACE(rung->name);
      ++takers;
      std::ranges::fill(*buffers_.back(), T(NAN));
      const Workspace workspace = workspace_of(*rung, checked);
      test::Buffer<uint8_t> memory(std::max<size_t>(workspace.bytes, 1));
      ws::run(*rung, checked, {.workspace = memory.data()});
      runtime::synchronize_device();
      compare();
    }
    EXPECT_GE(takers, 1);
  }

 private:
  void compare() const {
    const Tensor& y = problem_.tensor(2);
    std::vector<double> expected(static_cast<size_t>(y.elements()));
    std::array<double*, kMaxTensors> targets{};
    targets[2] = expected.data();
    Gemv::reference(problem_, {0, y.elements()}, targets);
    const Tolerance allowed = Gemv::tolerance(problem_, Gemv::kParameters[2]);
    for (int64_t i = 0; i < y.elements(); ++i) {
      const double want = expected[static_cast<size_t>(i)];
      const double got = element(y, i);
      if (!std::isfinite(want)) {
        ASSERT_EQ(std::isnan(got), std::isnan(want)) << "element " << i;
        if (!std::isnan(want)) {
          ASSERT_EQ(got, want) << "element " << i;
        }
        continue;
      }
      ASSERT_LE(std::abs(got - want), allowed.worst * (std::abs(want) + allowed.floor))
          << "element " << i << " of " << problem_.describe();
    }
  }

  Problem problem_;
  std::vector<std::unique_ptr<test::Buffer<T>>> buffers_;
};

// What a tile of loads has no element for is 0 in A as in x: a 0 times an infinity would be NaN.
TEST(Gemv, AnInfinityStaysInItsRow) {
  for (const Gemv::Layout layout : {kN, kT}) {
    Instance<half> instance(shape(24, 104, layout));
    const Tensor& a = instance.problem().tensor(0);
    const bool by_rows = layout == kN;
    a.as<half>()[(by_rows ? 5 : 103) * a.stride(0) + (by_rows ? 103 : 5)] = half(INFINITY);
    a.as<half>()[(by_rows ? 23 : 0) * a.stride(0) + (by_rows ? 0 : 23)] = half(-INFINITY);
    instance.expect_right();
    instance.problem().tensor(1).as<half>()[103] = half(INFINITY);
    instance.expect_right();
  }
}

// torch's w.t() @ x: the strides say it, not `layout`.
TEST(Gemv, StridesMayTranspose) {
  Instance<float> instance(shape(40, 72, kT, 4));
  EXPECT_EQ(instance.best_rung(), "split_columns");
  Problem& problem = instance.problem();
  Tensor& a = problem.tensor(0);
  std::swap(a.shape[0], a.shape[1]);
  std::swap(a.strides[0], a.strides[1]);
  problem.attributes[0] = Value::choice(static_cast<int>(kN));
  EXPECT_EQ(instance.best_rung(), "split_columns");
  instance.expect_right();
}

TEST(Gemv, AnyStrides) {
  Instance<float> instance(shape(18, 44, kN));
  Problem& problem = instance.problem();
  Tensor& a = problem.tensor(0);  // every other row and column, the columns from the last
  a.shape = {9, 22};
  a.data = a.as<float>() + 43;
  a.strides = {88, -2};
  problem.tensor(1).shape[0] = 22;
  problem.tensor(1).strides[0] = 0;  // one element, expanded
  problem.tensor(2).shape[0] = 9;
  problem.tensor(2).strides[0] = 2;
  EXPECT_EQ(instance.best_rung(), "any_layout");
  instance.expect_right();
}

// The device of the emulator has 4 multiprocessors.
TEST(Gemv, BestIsByRowsAndStrides) {
  if (!runtime::kEmulated) GTEST_SKIP() << "the choice depends on the device";
  EXPECT_EQ(Instance<half>(shape(3, 4096, kN)).best_rung(), "split_rows");
  EXPECT_EQ(Instance<half>(shape(64, 1024, kN)).best_rung(), "several_rows");
  EXPECT_EQ(Instance<half>(shape(64, 64, kN)).best_rung(), "short_rows");
  EXPECT_EQ(Instance<half>(shape(64, 1024, kT)).best_rung(), "split_columns");
  EXPECT_EQ(Instance<half>(shape(16384, 8, kT)).best_rung(), "column_vectors");
  EXPECT_EQ(Instance<half>(shape(64, 1023, kN)).best_rung(), "shifted_rows");
  EXPECT_EQ(Instance<half>(shape(3, 1023, kN)).best_rung(), "any_layout");
  EXPECT_EQ(Instance<half>(shape(63, 1024, kT)).best_rung(), "shifted_columns");
  EXPECT_EQ(Instance<half>(shape(64, 1024, kT, 1)).best_rung(), "shifted_columns");
}

TEST(Gemv, WithoutElements) {
  for (const Gemv::Layout layout : {kN, kT}) {
    Instance<float>(shape(5, 0, layout)).expect_right();
    EXPECT_EQ(Instance<float>(shape(0, 5, layout)).call().problem().tensor(2).elements(), 0);
  }
}

TEST(Gemv, ShapesMustFit) {
  Problem problem = make_problem(operation(), shape(4, 6, kN), DType::kF16);
  problem.attributes[0] = Value::choice(static_cast<int>(kT));
  problem.tensor(2) = {};
  try {
    AnyCall{problem};
    FAIL() << "accepted";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(),
                testing::AllOf(testing::HasSubstr("layout t"), testing::HasSubstr("[4, 6]"),
                               testing::HasSubstr("[6]")));
  }
}

}  // namespace
}  // namespace ws::gemv
