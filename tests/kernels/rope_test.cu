// What `verify` cannot ask of rope: positions that the tables have not, angles far out, outputs
// that are inputs, calls that are refused.
#include <gmock/gmock.h>

#include <cmath>

#include "catalogue/catalogue.hpp"
#include "kernels/rope/operations.hpp"
#include "tests/kernels/refused.hpp"
#include "tests/kernels/tensor_of.hpp"
#include "tests/run.hpp"
#include "warpsmith/device_error.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::rope {
namespace {

using test::tensor_of;
using testing::Each;
using testing::HasSubstr;

const Rung& rung(std::string_view name) {
  return *rung_named(family_of(operation_named("rope")), name);
}

TEST(Rope, PositionsThatTheTablesHaveNotAreTold) {
  for (const std::string_view name : {"any_layout", "halves", "shared_row"}) {
    for (const int wrong : {4, -1, 1 << 30}) {
      SCOPED_TRACE(concatenate(name, ": ", wrong));
      test::Buffer<float> x(std::vector<float>(3 * 2 * 16, 1));
      test::Buffer<float> y(std::vector<float>(3 * 2 * 16, 7));
      test::Buffer<float> table(std::vector<float>(4 * 8, 0.5F));
      test::Buffer<int32_t> positions(std::vector<int32_t>{3, wrong, 0});
      Problem problem;
      problem.operation = &operation_named("rope");
      problem["x"] = tensor_of(x, {3, 2, 16});
      problem["cos"] = tensor_of(table, {4, 8});
      problem["sin"] = tensor_of(table, {4, 8});
      problem["positions"] = tensor_of(positions, {3});
      problem["y"] = tensor_of(y, {3, 2, 16});
      std::string told;
      try {
        ws::run(rung(name), AnyCall(problem), {});
        runtime::synchronize_device();
        raise_device_error();
      } catch (const Error& error) {
        told = error.what();
      }
      EXPECT_THAT(told, HasSubstr(concatenate("index ", wrong,
                                              " at position 1 of 'positions' is "
                                              "outside [0, 4)")));
      const std::vector<float> all(y.begin(), y.end());
      EXPECT_THAT(std::vector<float>(all.begin() + 32, all.begin() + 64), Each(7.0F));
      EXPECT_THAT(std::vector<float>(all.begin(), all.begin() + 8), Each(0.0F));
      EXPECT_THAT(std::vector<float>(all.begin() + 88, all.end()), Each(1.0F));
    }
  }
}

// A pair (1, 0) becomes the cosine and the sine of its angle.
TEST(Rope, AnglesFarOutAreRight) {
  const std::vector<int64_t> far = {1, 65535, 1 << 20, (int64_t{1} << 31) + 12345, -77777};
  for (const std::string_view name : {"any_layout", "angles"}) {
    SCOPED_TRACE(name);
    const auto count = static_cast<int64_t>(far.size());
    std::vector<float> ones(far.size() * 8);
    for (size_t i = 0; i < ones.size(); ++i) ones[i] = i % 8 < 4 ? 1 : 0;
    test::Buffer<float> x(ones);
    test::Buffer<int64_t> positions(far);
    Problem problem;
    problem.operation = &operation_named("rope");
    problem["x"] = tensor_of(x, {count, 1, 8});
    problem["positions"] = tensor_of(positions, {count});
    problem["y"] = problem["x"];  // in place
    ws::run(rung(name), AnyCall(problem), {});
    runtime::synchronize_device();
    for (size_t at = 0; at < far.size(); ++at) {
      for (size_t pair = 0; pair < 4; ++pair) {
        const double angle =
            static_cast<double>(far[at]) * std::pow(10000.0, -static_cast<double>(pair) / 4);
        EXPECT_NEAR(x[at * 8 + pair], std::cos(angle), 2.5e-7) << far[at] << " " << pair;
        EXPECT_NEAR(x[at * 8 + 4 + pair], std::sin(angle), 2.5e-7) << far[at] << " " << pair;
      }
    }
  }
}

TEST(Rope, BadCallsAreRefusedWithTheirNumbers) {
  Problem good;
  good.operation = &operation_named("rope_qk");
  good["q"] = Tensor::dense(DType::kF16, {2, 5, 4, 16});
  good["k"] = Tensor::dense(DType::kF16, {2, 5, 2, 16});
  good["cos"] = Tensor::dense(DType::kF32, {5, 8});
  good["sin"] = Tensor::dense(DType::kF32, {5, 8});
  const auto told = [&](const auto& change) { return test::told(good, change); };
  EXPECT_EQ(told([](Problem&) {}), "accepted");
  EXPECT_THAT(told([](Problem& p) { p["k"] = Tensor::dense(DType::kF16, {2, 4, 2, 16}); }),
              HasSubstr("'k' is f16 [2, 4, 2, 16]"));
  EXPECT_THAT(told([](Problem& p) { p["q"] = Tensor::dense(DType::kF16, {4, 16}); }),
              HasSubstr("with 3 or 4 dimensions"));
  EXPECT_THAT(told([](Problem& p) { p["sin"] = Tensor{}; }), HasSubstr("together or neither"));
  EXPECT_THAT(told([](Problem& p) { p["sin"] = Tensor::dense(DType::kF32, {5, 7}); }),
              HasSubstr("'sin' is f32 [5, 7]"));
  EXPECT_THAT(told([](Problem& p) { p["cos"] = p["sin"] = Tensor::dense(DType::kBf16, {5, 8}); }),
              HasSubstr("'cos' is bf16 [5, 8]"));
  EXPECT_THAT(told([](Problem& p) { p["cos"] = p["sin"] = Tensor::dense(DType::kF32, {4, 8}); }),
              HasSubstr("a row for each of 5 positions"));
  EXPECT_THAT(told([](Problem& p) { p["cos"] = p["sin"] = Tensor::dense(DType::kF32, {5, 9}); }),
              HasSubstr("'cos' is f32 [5, 9]"));
  EXPECT_THAT(told([](Problem& p) { p["positions"] = Tensor::dense(DType::kI64, {2, 4}); }),
              HasSubstr("'positions' is i64 [2, 4]"));
  EXPECT_THAT(told([](Problem& p) { test::set(p, "rotary_dim", 12); }),
              HasSubstr("rotary_dim is 12, but the tables have 8 columns"));
  EXPECT_THAT(told([](Problem& p) {
                p["cos"] = p["sin"] = Tensor{};
                test::set(p, "rotary_dim", 7);
              }),
              HasSubstr("7 of 16 columns turn"));
  EXPECT_THAT(told([](Problem& p) { test::set(p, "base", 0.5); }), HasSubstr("not 0.5"));
}

TEST(Rope, AnOutputIsTheMemoryOfItsOwnInputOnly) {
  test::Buffer<float> q(std::vector<float>(16, 1));
  test::Buffer<float> k(std::vector<float>(16, 1));
  Problem problem;
  problem.operation = &operation_named("rope_qk");
  problem["q"] = problem["q_out"] = tensor_of(q, {2, 1, 8});
  problem["k"] = problem["k_out"] = tensor_of(k, {2, 1, 8});
  EXPECT_EQ(test::told(problem, [](Problem&) {}), "accepted");
  EXPECT_THAT(test::told(problem, [](Problem& p) { std::swap(p["q_out"], p["k_out"]); }),
              HasSubstr("'q_out' may be the memory of 'q'"));
}

}  // namespace
}  // namespace ws::rope
