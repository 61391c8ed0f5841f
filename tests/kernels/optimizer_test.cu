// What `verify` cannot ask of optimizer: rows of the table that leave the memory, the first step,
// values that are not finite.
#include <gmock/gmock.h>

#include <cmath>

#include "catalogue/catalogue.hpp"
#include "kernels/optimizer/operations.hpp"
#include "tests/kernels/refused.hpp"
#include "tests/kernels/tensor_of.hpp"
#include "tests/run.hpp"
#include "warpsmith/device_error.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::optimizer {
namespace {

using test::tensor_of;
using testing::HasSubstr;

const Rung& rung(std::string_view name) {
  return *rung_named(family_of(operation_named("adamw")), name);
}

TEST(AdamW, TheFirstStepGoesByTheSignOfTheGradient) {
  const std::vector<float> gradients = {1, -1, 1e-6F, -1e6F, 0, NAN, INFINITY, 3e-20F};
  for (const std::string_view name : {"naive", "any_layout", "vector"}) {
    SCOPED_TRACE(name);
    test::Buffer<float> param(8);
    test::Buffer<float> grad(gradients);
    test::Buffer<float> exp_avg(8);
    test::Buffer<float> exp_avg_sq(8);
    test::Buffer<float> step(std::vector<float>{1});
    Problem problem;
    problem.operation = &operation_named("adamw");
    problem["param"] = tensor_of(param, {8});
    problem["grad"] = tensor_of(grad, {8});
    problem["exp_avg"] = tensor_of(exp_avg, {8});
    problem["exp_avg_sq"] = tensor_of(exp_avg_sq, {8});
    problem["step"] = tensor_of(step, {1});
    ws::run(rung(name), AnyCall(problem), {});
    runtime::synchronize_device();
    // m / (1 - beta1) is g, v / (1 - beta2) is g^2: a step of lr, but for eps.
    for (size_t i = 0; i < 4; ++i) {
      const double g = gradients[i];
      EXPECT_NEAR(param[i], -1e-3 * g / (std::abs(g) + 1e-8), 1e-9) << g;
    }
    EXPECT_EQ(param[4], 0);
    EXPECT_TRUE(std::isnan(param[5]));
    EXPECT_TRUE(std::isnan(param[6]));  // infinity over infinity
    EXPECT_NEAR(param[7], 0, 1e-9);
  }
}

TEST(MultiTensorAdamW, RowsThatLeaveTheMemoryAreTold) {
  struct Wrong {
    std::vector<int64_t> row;
    std::string told;
  };
  const Wrong all[] = {
      {{0, 8, 16, 25, 8}, "index 25 at position 8 of 'pieces' is outside [0, 25)"},
      {{-1, 8, 16, 24, 8}, "index -1 at position 5 of 'pieces' is outside [0, 25)"},
      {{0, 8, 16, 24, 33}, "index 33 at position 9 of 'pieces' is outside [0, 33)"},
      {{0, 8, 16, 24, -2}, "index -2 at position 9 of 'pieces' is outside [0, 33)"},
  };
  for (const std::string_view name : {"piece_per_block", "piece_vectors"}) {
    for (const Wrong& wrong : all) {
      SCOPED_TRACE(concatenate(name, ": ", wrong.told));
      test::Buffer<float> memory(std::vector<float>(32, 1));
      std::vector<int64_t> rows = {0, 0, 0, 0, 0};  // an empty piece, then the wrong one
      rows.insert(rows.end(), wrong.row.begin(), wrong.row.end());
      test::Buffer<int64_t> pieces(rows);
      test::Buffer<float> step(std::vector<float>{1});
      Problem problem;
      problem.operation = &operation_named("multi_tensor_adamw");
      problem["memory"] = tensor_of(memory, {32});
      problem["pieces"] = tensor_of(pieces, {2, kPieceColumns});
      problem["step"] = tensor_of(step, {1});
      std::string told;
      try {
        ws::run(rung(name), AnyCall(problem), {});
        runtime::synchronize_device();
        raise_device_error();
      } catch (const Error& error) {
        told = error.what();
      }
      EXPECT_THAT(told, HasSubstr(wrong.told));
      EXPECT_THAT(std::vector<float>(memory.begin(), memory.end()), testing::Each(1.0F));
    }
  }
}

TEST(AdamW, BadCallsAreRefusedWithTheirNumbers) {
  test::Buffer<float> numbers(8);
  test::Buffer<half> halves(8);
  Problem good;
  good.operation = &operation_named("adamw");
  for (int k = 0; k < kOperands; ++k) good.tensor(k) = Tensor::dense(DType::kF32, {8});
  good["step"] = tensor_of(numbers, {1});
  const auto told = [&](const auto& change) { return test::told(good, change); };
  EXPECT_THAT(told([](Problem& p) { p["grad"] = Tensor::dense(DType::kF32, {7}); }),
              HasSubstr("'grad' is f32 [7]"));
  EXPECT_THAT(told([](Problem& p) { p["exp_avg"] = Tensor::dense(DType::kF16, {8}); }),
              HasSubstr("'exp_avg' is f16 [8]"));
  EXPECT_THAT(told([&](Problem& p) { p["step"] = tensor_of(numbers, {2}); }),
              HasSubstr("'step' of f32 with one element, got f32 [2]"));
  EXPECT_THAT(told([](Problem& p) { test::set(p, "beta1", 1.0); }), HasSubstr("not 1"));
  EXPECT_THAT(told([](Problem& p) { test::set(p, "lr", -0.5); }), HasSubstr("not -0.5"));
}

}  // namespace
}  // namespace ws::optimizer
