// What `verify` cannot ask of fused: values that are not finite, a mask that no layout changes, and
// more vectors than a launch takes.
#include <gmock/gmock.h>

#include <cmath>

#include "catalogue/catalogue.hpp"
#include "kernels/fused/compact_rows.hpp"
#include "tests/kernels/refused.hpp"
#include "tests/kernels/tensor_of.hpp"
#include "tests/run.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::fused {
namespace {

using test::tensor_of;
using testing::HasSubstr;

Problem problem_of(std::string_view name, std::initializer_list<Tensor> tensors) {
  Problem problem;
  problem.operation = &operation_named(name);
  std::ranges::copy(tensors, problem.tensors.begin());
  return problem;
}
// Runs every rung that takes the call.
template <class Check>
void for_rungs(const Problem& problem, const Check& check) {
  const AnyCall call(problem);
  int run = 0;
  for (const Rung* rung : family_of(*problem.operation).rungs) {
    if (!takes(*rung, call, 90)) continue;
    SCOPED_TRACE(rung->name);
    ws::run(*rung, call, {});
    runtime::synchronize_device();
    check();
    ++run;
  }
  EXPECT_GT(run, 0);
}

TEST(Fused, ValuesThatAreNotFiniteGoAsInTorch) {
  const std::vector<float> gates = {INFINITY, -INFINITY, NAN, 3e38F, -3e38F, 100, -100, 0};
  test::Buffer<float> gate(gates);
  test::Buffer<float> up(std::vector<float>(8, 2));
  test::Buffer<float> y(8);
  // silu(-infinity) is -infinity * 0.
  const std::vector<float> expected = {INFINITY, NAN, NAN, INFINITY, 0, 200, 0, 0};
  for (const std::string_view name : {"swiglu", "geglu"}) {
    SCOPED_TRACE(name);
    for_rungs(problem_of(name, {tensor_of(gate, {8}), tensor_of(up, {8}), tensor_of(y, {8})}), [&] {
      for (size_t i = 0; i < 8; ++i) {
        EXPECT_TRUE(std::isnan(expected[i])
                        ? std::isnan(y[i])
                        : std::abs(y[i] - expected[i]) < 1e-30 || y[i] == expected[i])
            << "of " << gates[i] << ": " << y[i];
      }
    });
  }
}

TEST(Fused, SlopesOfHugeGatesAreOneAndZero) {
  const std::vector<float> gates = {30, 88, 1e4F, 1e18F, -30, -88, -1e4F, -1e18F};
  test::Buffer<float> grad(std::vector<float>(8, 1));
  test::Buffer<float> gate(gates);
  test::Buffer<float> up(std::vector<float>(8, 1));
  test::Buffer<float> dgate(8);
  test::Buffer<float> dup(8);
  for (const auto& [name, choice] :
       {std::pair("swiglu_backward", 0), {"geglu_backward", 0}, {"geglu_backward", 1}}) {
    SCOPED_TRACE(concatenate(name, " ", choice));
    Problem problem =
        problem_of(name, {tensor_of(grad, {8}), tensor_of(gate, {8}), tensor_of(up, {8}),
                          tensor_of(dgate, {8}), tensor_of(dup, {8})});
    test::set(problem, "approximate", Value::choice(choice));
    for_rungs(problem, [&] {
      for (size_t i = 0; i < 8; ++i) {
        EXPECT_NEAR(dgate[i], gates[i] > 0 ? 1 : 0, 1e-6) << gates[i];
        EXPECT_NEAR(dup[i], gates[i] > 0 ? gates[i] : 0, std::abs(gates[i]) * 1e-6 + 1e-9);
      }
    });
  }
}

// Pieces of a dense tensor, and of rows, with a tail in the last.
TEST(Fused, MoreVectorsThanALaunchTakes) {
  using Functor = Gate<Silu>;
  using Kernel = CompactRowsKernel<float, Functor, elementwise::Front<32, 1>>;
  for (const int64_t columns : {int64_t{0}, int64_t{16}}) {  // 0: dense
    constexpr int64_t kElements = 16 * 61 + 3;
    const int64_t rows = columns == 0 ? 1 : kElements / columns;
    const int64_t count = columns == 0 ? kElements : rows * columns;
    const int64_t stride = columns == 0 ? count : 2 * columns;  // rows lie apart
    test::Buffer<float> gate(static_cast<size_t>(rows * stride));
    test::Buffer<float> up(static_cast<size_t>(rows * stride));
    test::Buffer<float> y(static_cast<size_t>(count));
    for (size_t i = 0; i < gate.size(); ++i) {
      gate[i] = static_cast<float>(i % 17) - 8;
      up[i] = static_cast<float>(i % 23) - 11;
    }
    elementwise::Layout layout;
    layout.operands = 3;
    layout.elements = count;
    layout.rank = columns == 0 ? 1 : 2;
    layout.extents = columns == 0 ? std::array<int64_t, kMaxRank>{count}
                                  : std::array<int64_t, kMaxRank>{rows, columns};
    for (size_t k = 0; k < 3; ++k) {
      layout.strides[k] = columns == 0
                              ? std::array<int64_t, kMaxRank>{1}
                              : std::array<int64_t, kMaxRank>{k == 2 ? columns : stride, 1};
    }
    PointersOf<float, Functor> at;
    at.inputs[0] = gate.data();
    at.inputs[1] = up.data();
    at.outputs[0] = y.data();
    launch_rows<Kernel>(layout, at, Functor{}, nullptr, 40);
    runtime::synchronize_device();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t from = columns == 0 ? i : i / columns * stride + i % columns;
      const float g = gate[static_cast<size_t>(from)];
      const float expected = g / (1 + std::exp(-g)) * up[static_cast<size_t>(from)];
      ASSERT_NEAR(y[static_cast<size_t>(i)], expected, 1e-4) << i;
    }
  }
}

TEST(Dropout, TheMaskGoesByTheElementsNumber) {
  constexpr int64_t kCount = 6000;
  test::Buffer<float> x(std::vector<float>(kCount, 1));
  test::Buffer<float> y(kCount);
  const auto run = [&](int64_t first, int64_t count, int64_t offset) {
    Problem problem = problem_of("dropout", {tensor_of(x, {count})});
    problem.tensor(0).data = x.data() + first;
    problem.tensor(1) = tensor_of(y, {count});
    test::set(problem, "p", 0.25);
    test::set(problem, "seed", int64_t{99});
    test::set(problem, "offset", offset);
    return problem;
  };
  for_rungs(run(0, kCount, 0), [&] {
    int64_t kept = 0;
    for (const float v : y) {
      EXPECT_TRUE(v == 0 || v == 1 / 0.75F);
      kept += v != 0 ? 1 : 0;
    }
    EXPECT_NEAR(static_cast<double>(kept) / kCount, 0.75, 0.03);
  });
  const std::vector<float> all(y.begin(), y.end());
  // A part of the tensor by its own offset, whatever it is.
  for (const int64_t offset : {1, 2, 3, 4, 1000, 1025}) {
    for_rungs(run(offset, 37, offset), [&] {
      for (int64_t i = 0; i < 37; ++i) {
        EXPECT_EQ(y[static_cast<size_t>(i)], all[static_cast<size_t>(offset + i)]);
      }
    });
  }
}

TEST(Fused, RowsOfZerosAndWhatIsNotFiniteAreQuantized) {
  constexpr int64_t kColumns = 16;
  test::Buffer<float> x(3 * kColumns);
  test::Buffer<float> weight(std::vector<float>(kColumns, 1));
  test::Buffer<e4m3> y(3 * kColumns);
  test::Buffer<float> scales(3);
  for (size_t i = 0; i < 16; ++i) {
    x[i] = 0;
    x[16 + i] = i == 3 ? NAN : 1;
    x[32 + i] = i == 5 ? 4 : 1;
  }
  Problem problem = problem_of("rms_norm_quantized",
                               {tensor_of(x, {3, kColumns}), tensor_of(weight, {kColumns})});
  problem["y"] = tensor_of(y, {3, kColumns});
  problem["scales"] = tensor_of(scales, {3});
  for_rungs(problem, [&] {
    const float root = std::sqrt(31.0F / 16);
    EXPECT_EQ(scales[0], 1);
    EXPECT_EQ(scales[1], 1);
    EXPECT_NEAR(scales[2], 4 / root / 448, 1e-6);
    for (size_t i = 0; i < 16; ++i) {
      EXPECT_EQ(to_float(y[i]), 0);
      EXPECT_TRUE(std::isnan(to_float(y[16 + i])));
      EXPECT_EQ(to_float(y[32 + i]), i == 5 ? 448 : 112);
    }
  });
}

TEST(Fused, BadCallsAreRefusedWithTheirNumbers) {
  test::Buffer<float> x(64);
  test::Buffer<float> bias(8);
  const Problem good = problem_of("bias_gelu", {tensor_of(x, {8, 8}), tensor_of(bias, {8})});
  const auto shorter = [&](Problem& p) { p.tensor(1) = tensor_of(bias, {7}); };
  EXPECT_THAT(test::told(good, shorter), HasSubstr("f32 [7]"));
  const Problem gates = problem_of("swiglu", {tensor_of(x, {8, 8}), tensor_of(x, {8, 8})});
  const auto other = [&](Problem& p) { p.tensor(1) = tensor_of(x, {64}); };
  EXPECT_THAT(test::told(gates, other), HasSubstr("one shape and dtype"));
  Problem drop = problem_of("dropout", {tensor_of(x, {64})});
  test::set(drop, "seed", int64_t{1});
  EXPECT_THAT(test::told(drop, [](Problem& p) { test::set(p, "p", 1.5); }), HasSubstr("not 1.5"));
  EXPECT_THAT(test::told(drop, [](Problem& p) { test::set(p, "offset", int64_t{-4}); }),
              HasSubstr("not -4"));
}

}  // namespace
}  // namespace ws::fused
