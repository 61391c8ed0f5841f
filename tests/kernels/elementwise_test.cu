// What `verify` cannot ask of the elementwise family: values that are not finite, every f16 and
// bf16 there is, operands that share memory, and layouts of all ranks.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "catalogue/catalogue.hpp"
#include "kernels/elementwise/04_strided.cuh"
#include "kernels/elementwise/operations.hpp"
#include "tests/run.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::elementwise {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::string_view kUnary[] = {"relu",      "elu",        "gelu",   "swish",
                                       "hardswish", "hardshrink", "sigmoid"};

const Family& family() { return family_of(operation_named("relu")); }

// The gradients, by name, and each way that one may be computed.
std::vector<std::pair<std::string_view, Value>> slopes() {
  std::vector<std::pair<std::string_view, Value>> found;
  for (const Operation& operation : family().operations) {
    if (operation.parameters[0].name != "grad") continue;
    found.emplace_back(operation.name, Value());
    if (operation.name == "gelu_backward") found.back().second = Value::choice(0);
    if (operation.name == "gelu_backward") found.emplace_back(operation.name, Value::choice(1));
  }
  return found;
}

template <class T>
Tensor vector_of(test::Buffer<T>& buffer) {
  Tensor tensor = Tensor::dense(kDType<T>, {static_cast<int64_t>(buffer.size())});
  tensor.data = buffer.data();
  return tensor;
}

// A checked call; the last of `tensors` may be an output.
AnyCall call_of(std::string_view name, std::initializer_list<Tensor> tensors,
                const Value& attribute = {}) {
  Problem problem;
  problem.operation = &operation_named(name);
  problem.attributes[0] = attribute;
  std::ranges::copy(tensors, problem.tensors.begin());
  return AnyCall(problem);
}

const Rung& rung(std::string_view name) { return *rung_named(family(), name); }

void run_and_wait(const Rung& rung, const AnyCall& call) {
  ws::run(rung, call, {});
  runtime::synchronize_device();
}

// Every element is within the operation's tolerance of the reference, and as infinite or NaN. That
// of a gradient is for incoming ones of up to 5; `size` is what they are of it.
void expect_right(const AnyCall& call, double size = 1) {
  const Problem& problem = call.problem();
  const Operation& operation = *problem.operation;
  const size_t output = operation.parameters.size() - 1;
  const Tensor& y = problem.tensors[output];
  const int64_t count = y.elements();
  std::vector<double> expected(static_cast<size_t>(count));
  std::array<double*, kMaxTensors> targets{};
  targets[output] = expected.data();
  operation.reference(problem, {0, count}, targets);
  Tolerance tolerance = operation.tolerance(problem, operation.parameters[output]);
  tolerance.floor *= size;
  int reported = 0;
  for (int64_t i = 0; i < count && reported < 5; ++i) {
    const double got = element(y, i);
    const double want = round_to(y.dtype, expected[static_cast<size_t>(i)]);
    const bool right =
        std::isnan(want) ? std::isnan(got)
                         : got == want || std::abs(got - expected[static_cast<size_t>(i)]) <=
                                              tolerance.worst * (std::abs(want) + tolerance.floor);
    if (right) continue;
    ++reported;
    ADD_FAILURE() << problem.describe() << ", element " << i << ": got " << got
                  << ", the reference has " << expected[static_cast<size_t>(i)];
  }
}

template <class T>
class Elementwise : public testing::Test {};
using Types = testing::Types<float, half, bf16>;
TYPED_TEST_SUITE(Elementwise, Types);

TYPED_TEST(Elementwise, ValuesThatAreNotFinite) {
  using T = TypeParam;
  struct Expectation {
    std::string_view operation;
    double at_minus_infinity;
    double at_infinity;
  };
  // As torch has them: x * 0 is NaN where x is infinite.
  const Expectation all[] = {
      {"relu", 0, kInfinity},
      {"elu", -1, kInfinity},
      {"gelu", kNaN, kInfinity},
      {"swish", kNaN, kInfinity},
      {"hardswish", kNaN, kInfinity},
      {"hardshrink", -kInfinity, kInfinity},
      {"sigmoid", 0, 1},
  };
  const auto infinity = static_cast<float>(kInfinity);
  const std::vector<float> inputs = {-infinity, infinity, static_cast<float>(kNaN)};
  for (const Expectation& want : all) {
    for (int choice = 0; choice < (want.operation == "gelu" ? 2 : 1); ++choice) {
      // 19 elements: in vectors, and in what is left over.
      test::Buffer<T> x(19);
      test::Buffer<T> y(19);
      for (size_t i = 0; i < x.size(); ++i) x[i] = from_float<T>(inputs[i % 3]);
      const AnyCall call = call_of(want.operation, {vector_of(x), vector_of(y)},
                                   want.operation == "gelu" ? Value::choice(choice) : Value());
      for (const Rung* rung : family().rungs) {
        if (!takes(*rung, call, runtime::capability())) continue;
        SCOPED_TRACE(concatenate(want.operation, "/", rung->name));
        std::ranges::fill(y, from_float<T>(-7));
        run_and_wait(*rung, call);
        for (size_t i = 0; i < y.size(); ++i) {
          const double got = to_float(y[i]);
          const double expected = i % 3 == 0   ? want.at_minus_infinity
                                  : i % 3 == 1 ? want.at_infinity
                                               : kNaN;
          if (std::isnan(expected)) {
            EXPECT_TRUE(std::isnan(got)) << "element " << i << " is " << got;
          } else {
            EXPECT_EQ(got, expected) << "element " << i;
          }
        }
      }
    }
  }
}

TYPED_TEST(Elementwise, SlopesOfValuesThatAreNotFinite) {
  using T = TypeParam;
  // At -infinity, infinity and NaN, as torch has them; of elu and hardswish of a NaN it has NaN or
  // 1, as it computes vectors or single elements.
  const std::map<std::string_view, std::array<double, 3>> expected = {
      {"threshold_backward", {0, 1, 1}},
      {"elu_backward", {0, 1, kNaN}},
      {"gelu_backward", {kNaN, kNaN, kNaN}},
      {"silu_backward", {kNaN, kNaN, kNaN}},
      {"hardswish_backward", {0, 1, kNaN}},
      {"hardshrink_backward", {1, 1, 1}},
      {"sigmoid_backward", {-kInfinity, -kInfinity, kNaN}},
  };
  const auto infinity = static_cast<float>(kInfinity);
  test::Buffer<T> grad(std::vector<T>(3, from_float<T>(1)));
  test::Buffer<T> x(3);
  test::Buffer<T> dx(3);
  for (size_t i = 0; i < 3; ++i) {
    x[i] = from_float<T>(std::array{-infinity, infinity, static_cast<float>(kNaN)}[i]);
  }
  for (const auto& [name, choice] : slopes()) {
    run_and_wait(rung("scalar"),
                 call_of(name, {vector_of(grad), vector_of(x), vector_of(dx)}, choice));
    EXPECT_THAT(std::vector<double>({to_float(dx[0]), to_float(dx[1]), to_float(dx[2])}),
                testing::Pointwise(testing::NanSensitiveDoubleEq(), expected.at(name)))
        << name;
  }
}

// Where a function is flat its gradient is 0 whatever comes in, as a scaler of losses wants it.
TYPED_TEST(Elementwise, InfiniteGradientsEndWhereNothingPasses) {
  using T = TypeParam;
  test::Buffer<T> grad(std::vector<T>(2, from_float<T>(static_cast<float>(kInfinity))));
  test::Buffer<T> x(2);
  test::Buffer<T> dx(2);
  grad[1] = from_float<T>(static_cast<float>(kNaN));
  struct Flat {
    std::string_view operation;
    float at;
  };
  for (const auto& [operation, at] :
       {Flat{"threshold_backward", 0}, Flat{"threshold_backward", -5},
        Flat{"hardswish_backward", -3}, Flat{"hardswish_backward", -9},
        Flat{"hardshrink_backward", 0.5F}}) {
    std::ranges::fill(x, from_float<T>(at));
    run_and_wait(rung("scalar"),
                 call_of(operation, {vector_of(grad), vector_of(x), vector_of(dx)}));
    for (const T value : dx) EXPECT_EQ(to_float(value), 0) << operation << " at " << at;
  }
}

TYPED_TEST(Elementwise, ZeroKeepsItsSign) {
  using T = TypeParam;
  for (const std::string_view name : {"relu", "elu", "gelu", "swish", "hardswish"}) {
    test::Buffer<T> x(2);
    test::Buffer<T> y(2);
    x[0] = from_float<T>(-0.0f);
    x[1] = from_float<T>(0.0f);
    run_and_wait(rung("compact_front"), call_of(name, {vector_of(x), vector_of(y)}));
    EXPECT_EQ(to_float(y[0]), 0.0f);
    EXPECT_TRUE(std::signbit(to_float(y[0]))) << name;
    EXPECT_FALSE(std::signbit(to_float(y[1]))) << name;
  }
}

TYPED_TEST(Elementwise, HardshrinkKeepsWhatIsBeyondLambd) {
  using T = TypeParam;
  test::Buffer<T> x(6);
  test::Buffer<T> y(6);
  // torch rounds lambd to the dtype, so 0.3 itself is not beyond 0.3.
  const float edge = to_float(from_float<T>(0.3f));
  const float above = edge * (1 + (sizeof(T) == 4 ? 2e-7f : 1e-2f));
  const float values[] = {edge, -edge, above, -above, 0.0f, -0.0f};
  for (size_t i = 0; i < 6; ++i) x[i] = from_float<T>(values[i]);
  run_and_wait(rung("scalar"), call_of("hardshrink", {vector_of(x), vector_of(y)}, 0.3));
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(to_float(y[i]), i == 2 || i == 3 ? to_float(x[i]) : 0.0f) << i;
  }
  // A negative lambd keeps everything.
  run_and_wait(rung("scalar"), call_of("hardshrink", {vector_of(x), vector_of(y)}, -1.0));
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(to_float(y[i]), to_float(x[i])) << i;
}

TYPED_TEST(Elementwise, ThresholdIsOfTheDType) {
  using T = TypeParam;
  test::Buffer<T> grad(std::vector<T>(3, from_float<T>(2)));
  test::Buffer<T> x(3);
  test::Buffer<T> dx(3);
  const float edge = to_float(from_float<T>(0.3f));
  const float values[] = {edge, edge * (1 + (sizeof(T) == 4 ? 2e-7f : 1e-2f)), -1.0f};
  for (size_t i = 0; i < 3; ++i) x[i] = from_float<T>(values[i]);
  run_and_wait(rung("scalar"),
               call_of("threshold_backward", {vector_of(grad), vector_of(x), vector_of(dx)}, 0.3));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(to_float(dx[i]), i == 1 ? 2 : 0) << i;
}

// Of f32 a random sixteenth of a million bit patterns, of f16 and bf16 all there are.
TYPED_TEST(Elementwise, AllValues) {
  using T = TypeParam;
  test::Buffer<T> x(65536);
  test::Buffer<T> y(65536);
  std::mt19937 bits(7);
  for (uint32_t i = 0; i < 65536; ++i) {
    if constexpr (std::is_same_v<T, float>) {
      x[i] = std::bit_cast<float>(static_cast<uint32_t>(bits()));
    } else {
      x[i].bits = static_cast<uint16_t>(i);
    }
  }
  for (const std::string_view name : kUnary) {
    const AnyCall call = call_of(name, {vector_of(x), vector_of(y)});
    run_and_wait(rung("compact_front"), call);
    expect_right(call);
  }
  const AnyCall tanh = call_of("gelu", {vector_of(x), vector_of(y)}, Value::choice(1));
  run_and_wait(rung("compact_front"), tanh);
  expect_right(tanh);

  test::Buffer<T> grad(std::vector<T>(x.size(), from_float<T>(-1)));
  for (const auto& [name, choice] : slopes()) {
    const AnyCall call = call_of(name, {vector_of(grad), vector_of(x), vector_of(y)}, choice);
    run_and_wait(rung("compact_front"), call);
    expect_right(call, 0.2);
  }
}

// f32 where the formulas bend, densely.
TEST(ElementwiseValues, FloatsAroundTheOrigin) {
  test::Buffer<float> x(1 << 17);
  test::Buffer<float> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = 16 * (2 * static_cast<float>(i) / static_cast<float>(x.size()) - 1);
  }
  for (const std::string_view name : kUnary) {
    const AnyCall call = call_of(name, {vector_of(x), vector_of(y)});
    run_and_wait(rung("pack"), call);
    expect_right(call);
  }
  test::Buffer<float> grad(std::vector<float>(x.size(), 1));
  for (const auto& [name, choice] : slopes()) {
    const AnyCall call = call_of(name, {vector_of(grad), vector_of(x), vector_of(y)}, choice);
    run_and_wait(rung("compact_front"), call);
    expect_right(call, 0.2);
  }
}

// In place: the output is exactly an input, in every order of threads.
TEST(ElementwiseLayout, OutputMayBeAnInput) {
  test::in_every_order([] {
    for (const Rung* rung : family().rungs) {
      test::Buffer<half> x(1000);
      std::vector<float> before(1000);
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = from_float<half>(static_cast<float>(i) - 500);
        before[i] = to_float(x[i]);
      }
      const Tensor whole = vector_of(x);
      run_and_wait(*rung, call_of("relu", {whole, whole}));
      run_and_wait(*rung, call_of("add", {whole, whole, whole}));
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(to_float(x[i]), 2 * std::max(before[i], 0.0f)) << rung->name << " " << i;
      }
    }
  });
}

TEST(ElementwiseLayout, InPlaceBesideABroadcast) {
  test::in_every_order([] {
    test::Buffer<float> x(20 * 30);
    test::Buffer<float> row(30);
    std::iota(x.begin(), x.end(), 0.0f);
    std::iota(row.begin(), row.end(), 1.0f);
    Tensor matrix = Tensor::dense(DType::kF32, {20, 30});
    matrix.data = x.data();
    run_and_wait(rung("strided"), call_of("mul", {matrix, vector_of(row), matrix}));
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(x[i], static_cast<float>(i) * static_cast<float>(i % 30 + 1)) << i;
    }
  });
}

// What is read again after it was written: refused.
TEST(ElementwiseLayout, OutputMayNotOverlapAnInputOtherwise) {
  test::Buffer<float> x(1024);
  Tensor matrix = Tensor::dense(DType::kF32, {32, 32});
  matrix.data = x.data();
  Tensor transposed = matrix;
  std::swap(transposed.strides[0], transposed.strides[1]);
  Tensor first_row = Tensor::dense(DType::kF32, {32});
  first_row.data = x.data();
  Tensor shifted = Tensor::dense(DType::kF32, {1000});
  shifted.data = x.data() + 8;
  Tensor start = Tensor::dense(DType::kF32, {1000});
  start.data = x.data();
  EXPECT_THROW(call_of("relu", {transposed, matrix}), InvalidArgument);
  EXPECT_THROW(call_of("add", {matrix, first_row, matrix}), InvalidArgument);
  EXPECT_THROW(call_of("add", {first_row, matrix, matrix}), InvalidArgument);
  EXPECT_THROW(call_of("relu", {start, shifted}), InvalidArgument);
}

TEST(ElementwiseLayout, PointersThatLieDifferently) {
  test::Buffer<half> a(3000);
  test::Buffer<half> b(3000);
  test::Buffer<half> y(3000);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = from_float<half>(static_cast<float>(i % 97));
    b[i] = from_float<half>(static_cast<float>(i % 89));
  }
  const int device = runtime::capability();
  for (const int shifts : {0, 1, 8, 17, 73, 511}) {
    const auto part = [](test::Buffer<half>& buffer, int shift) {
      Tensor tensor = Tensor::dense(DType::kF16, {2900});
      tensor.data = buffer.data() + shift;
      return tensor;
    };
    const AnyCall call =
        call_of("mul", {part(a, shifts % 8), part(b, shifts / 8 % 8), part(y, shifts / 64)});
    for (const Rung* rung : family().rungs) {
      std::fill(y.begin(), y.end(), from_float<half>(-1));
      if (!takes(*rung, call, device)) continue;
      run_and_wait(*rung, call);
      expect_right(call);
      EXPECT_EQ(to_float(y[static_cast<size_t>(shifts / 64 + 2900)]), -1) << rung->name;
    }
    EXPECT_EQ(best(call, device).name, "compact_front");
  }
}

TEST(ElementwiseLayout, SixDimensionsBroadcastAndPermuted) {
  test::Buffer<float> a(2 * 3 * 4 * 5 * 2 * 3);
  test::Buffer<float> b(3 * 5 * 3);
  test::Buffer<float> y(a.size());
  std::iota(a.begin(), a.end(), 1.0f);
  std::iota(b.begin(), b.end(), 0.5f);
  Tensor wide = Tensor::dense(DType::kF32, {2, 3, 4, 5, 2, 3});
  wide.data = a.data();
  std::swap(wide.strides[1], wide.strides[5]);  // both have extent 3
  std::swap(wide.strides[0], wide.strides[4]);  // both have extent 2
  Tensor narrow = Tensor::dense(DType::kF32, {3, 1, 5, 1, 3});
  narrow.data = b.data();
  Tensor out = Tensor::dense(DType::kF32, {2, 3, 4, 5, 2, 3});
  out.data = y.data();
  for (const std::string_view name : {"add", "mul"}) {
    const AnyCall call = call_of(name, {wide, narrow, out});
    const Rung& rung = best(call, runtime::capability());
    EXPECT_EQ(rung.name, "strided");
    run_and_wait(rung, call);
    expect_right(call);
  }
  // All operands permuted alike are flat again.
  Tensor same = out;
  same.strides = wide.strides;
  EXPECT_TRUE(layout_of(call_of("add", {wide, wide, same}).problem(), 3).is_flat());
  EXPECT_EQ(layout_of(call_of("add", {wide, narrow, out}).problem(), 3).rank, 6);
}

TEST(ElementwiseLayout, RankZeroAndOnes) {
  test::Buffer<float> x(1);
  test::Buffer<float> y(1);
  x[0] = 2.5f;
  for (const int rank : {0, 6}) {
    Tensor in = Tensor::dense(DType::kF32, {1, 1, 1, 1, 1, 1});
    in.rank = rank;
    in.strides = {17, 0, 3, 99, 5, 7};  // of extents 1 they mean nothing
    in.data = x.data();
    Tensor out = in;
    out.strides = {};
    out.data = y.data();
    for (const Rung* rung : family().rungs) {
      const AnyCall call = call_of("add", {in, in, out});
      if (!takes(*rung, call, runtime::capability())) continue;
      y[0] = 0;
      run_and_wait(*rung, call);
      EXPECT_EQ(y[0], 5.0f) << rung->name << " rank " << rank;
    }
  }
}

// As torch: an extent of 1 goes with any other, 0 too.
TEST(ElementwiseLayout, BroadcastsWithoutElements) {
  using Shape = std::vector<int64_t>;
  struct Expectation {
    Shape a;
    Shape b;
    Shape y;
  };
  const Expectation all[] = {
      {{0, 1}, {0, 10}, {0, 10}},
      {{0, 10}, {0, 1}, {0, 10}},
      {{1, 0}, {10, 1}, {10, 0}},
      {{0}, {1}, {0}},
      {{1}, {0}, {0}},
      {{}, {0}, {0}},
      {{0}, {}, {0}},
      {{3, 0}, {0}, {3, 0}},
      {{3, 1}, {0}, {3, 0}},
      {{0, 3}, {3}, {0, 3}},
      {{0, 3}, {1}, {0, 3}},
      {{0, 1}, {1, 0}, {0, 0}},
      {{2, 1, 0}, {5, 1}, {2, 5, 0}},
  };
  for (const Expectation& one : all) {
    const AnyCall call =
        call_of("add", {Tensor::dense(DType::kF32, one.a), Tensor::dense(DType::kF32, one.b)});
    EXPECT_THAT(call.problem().tensor(2).extents(), testing::ElementsAreArray(one.y));
    run_and_wait(best(call, runtime::capability()), call);
  }
  for (const auto& [a, b] : {std::pair<Shape, Shape>{{0}, {2}}, {{2}, {0}}, {{0, 2}, {0, 3}}}) {
    EXPECT_THROW(call_of("add", {Tensor::dense(DType::kF32, a), Tensor::dense(DType::kF32, b)}),
                 InvalidArgument);
  }
}

// What a tensor of over 2^31 elements takes, on a small one.
TEST(ElementwiseLayout, SplitLaunches) {
  test::Buffer<float> a(7 * 11 * 13);
  test::Buffer<float> y(a.size());
  std::iota(a.begin(), a.end(), -500.0f);
  Tensor in = Tensor::dense(DType::kF32, {7, 11, 13});
  in.data = a.data();
  Tensor out = in;
  out.data = y.data();
  std::swap(in.shape[0], in.shape[2]);
  in.strides = {1, 13, 143};
  out.shape = in.shape;
  out.strides = {77, 7, 1};
  const AnyCall call = call_of("relu", {in, out});
  for (const int64_t limit : {1, 2, 50, 76, 77, 500, 1001}) {
    std::fill(y.begin(), y.end(), -1.0f);
    const Relu::Call relu = Relu::call(call.problem());
    launch_strided<float>(Relu::Functor{}, Pointers<float, 1>(relu), relu.layout, nullptr, limit);
    runtime::synchronize_device();
    expect_right(call);
  }
}

TEST(ElementwiseErrors, NameTheValues) {
  const auto message = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "no error";
  };
  test::Buffer<float> x(12);
  test::Buffer<half> h(12);
  Tensor a = Tensor::dense(DType::kF32, {3, 4});
  a.data = x.data();
  Tensor b = Tensor::dense(DType::kF32, {4, 3});
  b.data = x.data();
  EXPECT_THAT(message([&] { call_of("add", {a, b}); }),
              testing::HasSubstr("add cannot broadcast f32 [3, 4] and f32 [4, 3]"));
  EXPECT_THAT(message([&] { call_of("add", {vector_of(x), vector_of(h)}); }),
              testing::HasSubstr("one dtype, got f32 [12] and f16 [12]"));
  EXPECT_THAT(
      message([&] { call_of("gelu_backward", {a, b}); }),
      testing::HasSubstr("gelu_backward needs inputs of one shape and dtype, got f32 [3, 4] "
                         "and f32 [4, 3]"));
  Tensor integers = a;
  integers.dtype = DType::kI32;
  EXPECT_THAT(message([&] { call_of("relu", {integers}); }), testing::HasSubstr("i32"));
  EXPECT_THAT(message([&] { call_of("gelu", {a}, Value::choice(2)); }),
              testing::HasSubstr("approximate"));
}

TEST(ElementwiseErrors, RefusalsNameStridesAndPointers) {
  test::Buffer<half> x(80);
  test::Buffer<half> y(80);
  Tensor in = Tensor::dense(DType::kF16, {5, 8});
  in.data = x.data();
  in.strides[0] = 16;
  Tensor out = Tensor::dense(DType::kF16, {5, 8});
  out.data = y.data();
  EXPECT_EQ(why_not(rung("scalar"), call_of("relu", {in, out}), 90),
            "needs dense tensors of one shape and order, got 5 x 8 elements, strides 16, 1 and "
            "8, 1");
  in.strides[0] = 8;
  in.data = x.data() + 1;
  EXPECT_EQ(why_not(rung("pack"), call_of("relu", {in, out}), 90),
            "needs pointers aligned to 16 bytes; 'x' is 2 past");
  EXPECT_EQ(why_not(rung("scalar"), call_of("relu", {in, out}), 90), "");
}

TEST(ElementwiseSeeds, AllNamesResolve) {
  for (const std::string_view name :
       {"elementwise_f32", "relu_f16x8_pack", "gelu_f16x2", "elementwise_f16x8", "swish_f32x4",
        "sigmoid_f16", "elementwise_mul_naive_f32", "elementwise_mul_naive_f16",
        "elementwise_template_mul_pack_f32", "elementwise_template_mul_pack_f16"}) {
    const Address address = resolve(name);
    EXPECT_NE(address.rung, nullptr) << name;
    EXPECT_NE(address.operation, nullptr) << name;
    EXPECT_FALSE(address.dtypes.empty()) << name;
  }
}

}  // namespace
}  // namespace ws::elementwise
