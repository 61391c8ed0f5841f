// Accuracy and special values of the functions of a float.
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/quotient.hpp"

#include <cmath>

#include "tests/run.hpp"

namespace ws {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

template <class Function>
struct Map {
  static constexpr int kThreads = 256;
  struct Arguments {
    const float* x;
    float* y;
    int64_t size;
  };
  struct SharedStorage {};
  __device__ void operator()(SharedStorage&, const Arguments& arguments) const {
    const int64_t i = block_index() * 256 + thread_index();
    if (i < arguments.size) arguments.y[i] = Function{}(arguments.x[i]);
  }
};

template <class Function>
std::vector<float> map(const std::vector<float>& values) {
  test::Buffer<float> x(values);
  test::Buffer<float> y(values.size());
  const auto size = static_cast<int64_t>(values.size());
  test::run<Map<Function>>({.blocks = (size + 255) / 256, .threads = 256},
                           {x.data(), y.data(), size});
  return {y.begin(), y.end()};
}

// Many values of both signs between 2^-30 and `limit`.
std::vector<float> samples(double limit) {
  std::vector<float> values;
  double value = std::ldexp(1.0, -30);
  while (value < limit) {
    values.push_back(static_cast<float>(value));
    values.push_back(static_cast<float>(-value));
    value *= 1.003;
  }
  return values;
}

// Largest error in units of the last place of the right result, where that is a normal number.
template <class Function>
double worst_ulps(const std::vector<float>& values, double (*exact)(double)) {
  const std::vector<float> results = map<Function>(values);
  double worst = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double expected = exact(values[i]);
    const bool normal = std::abs(expected) >= std::numeric_limits<float>::min() &&
                        std::abs(expected) <= std::numeric_limits<float>::max();
    if (!normal) continue;
    const double ulp = std::ldexp(1.0, std::ilogb(expected) - 23);
    const double error = std::abs(results[i] - expected) / ulp;
    if (!(error <= worst)) {
      worst = std::isnan(error) ? HUGE_VAL : error;
    }
  }
  return worst;
}

#define WS_FUNCTION(Name, expression)                                 \
  struct Name {                                                       \
    __device__ float operator()(float x) const { return expression; } \
  }
WS_FUNCTION(Exp2, thread::exp2(x));
WS_FUNCTION(Exp, thread::exp(x));
WS_FUNCTION(FastExp, thread::fast_exp(x));
WS_FUNCTION(Log, thread::log(x));
WS_FUNCTION(FastLog2, thread::fast_log2(x));
WS_FUNCTION(Reciprocal, thread::reciprocal(x));
WS_FUNCTION(Sqrt, thread::sqrt(x));
WS_FUNCTION(SqrtOfMagnitude, thread::sqrt(::fabsf(x)));
WS_FUNCTION(Tanh, thread::tanh(x));
WS_FUNCTION(FastTanh, thread::fast_tanh(x));
WS_FUNCTION(Erf, thread::erf(x));
WS_FUNCTION(Erfc, thread::erfc(x));
WS_FUNCTION(Sigmoid, thread::sigmoid(x));
WS_FUNCTION(FastSigmoid, thread::fast_sigmoid(x));
WS_FUNCTION(MaxNan, ptx::max_nan_f32(x, 1.0f));
WS_FUNCTION(InverseOfMaxNan, 1.0f / ptx::max_nan_f32(-0.0f, x));
#undef WS_FUNCTION

double exact_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double exact_reciprocal(double x) { return 1 / x; }
double exact_root_of_magnitude(double x) { return std::sqrt(std::abs(x)); }

TEST(Math, IsAccurate) {
  EXPECT_LE(worst_ulps<Exp2>(samples(128), std::exp2), 3);
  EXPECT_LE(worst_ulps<Exp>(samples(89), std::exp), 2);
  EXPECT_LE(worst_ulps<FastExp>(samples(1), std::exp), 4);
  EXPECT_LE(worst_ulps<FastExp>(samples(89), std::exp), 120);
  EXPECT_LE(worst_ulps<Log>(samples(3e38), std::log), 2);
  EXPECT_LE(worst_ulps<Reciprocal>(samples(1e37), exact_reciprocal), 1.5);
  EXPECT_LE(worst_ulps<SqrtOfMagnitude>(samples(3e38), exact_root_of_magnitude), 2);
  EXPECT_LE(worst_ulps<Tanh>(samples(100), std::tanh), 3);
  EXPECT_LE(worst_ulps<FastTanh>(samples(100), std::tanh), 8300);  // 2^-11
  EXPECT_LE(worst_ulps<Erf>(samples(100), std::erf), 3);
  EXPECT_LE(worst_ulps<Erfc>(samples(9), std::erfc), 6);
  EXPECT_LE(worst_ulps<Sigmoid>(samples(100), exact_sigmoid), 4);
}

// By how many numbers a quotient is not what a division gives.
struct QuotientsThatAreOff {
  __device__ float operator()(float x) const {
    int off = 0;
    for (int i = 0; i < 77; ++i) {
      const float by = 1 + 0.013f * static_cast<float>(i);
      off += thread::quotient(x, by, 1 / by) != x / by;
    }
    return static_cast<float>(off);
  }
};

TEST(Math, QuotientsAreDivisions) {
  for (const float off : map<QuotientsThatAreOff>(samples(1e30))) ASSERT_EQ(off, 0);
}

template <class Function>
void expect_values(const std::vector<float>& x, const std::vector<float>& expected) {
  const std::vector<float> y = map<Function>(x);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_TRUE(y[i] == expected[i] || (std::isnan(y[i]) && std::isnan(expected[i])))
        << "f(" << x[i] << ") = " << y[i] << ", not " << expected[i];
  }
}

TEST(Math, TakesInfinityNanAndHugeArguments) {
  const std::vector<float> x = {kInf, -kInf, NAN, 3e38f, -3e38f, 0.0f};
  expect_values<Exp2>(x, {kInf, 0, NAN, kInf, 0, 1});
  expect_values<Exp>(x, {kInf, 0, NAN, kInf, 0, 1});
  expect_values<FastExp>(x, {kInf, 0, NAN, kInf, 0, 1});
  expect_values<Tanh>(x, {1, -1, NAN, 1, -1, 0});
  expect_values<FastTanh>(x, {1, -1, NAN, 1, -1, 0});
  expect_values<Erf>(x, {1, -1, NAN, 1, -1, 0});
  expect_values<Erfc>(x, {0, 2, NAN, 0, 2, 1});
  expect_values<Sigmoid>(x, {1, 0, NAN, 1, 0, 0.5f});
  expect_values<FastSigmoid>(x, {1, 0, NAN, 1, 0, 0.5f});
  expect_values<Log>({kInf, NAN, 0.0f, -1.0f, 1.0f}, {kInf, NAN, -kInf, NAN, 0});
  expect_values<FastLog2>({kInf, NAN, 0.0f, -1.0f, 1.0f}, {kInf, NAN, -kInf, NAN, 0});
  expect_values<Sqrt>({kInf, NAN, 0.0f, -1.0f, 4.0f}, {kInf, NAN, 0, NAN, 2});
  expect_values<MaxNan>(x, {kInf, 1, NAN, 3e38f, 1, 1});
  expect_values<InverseOfMaxNan>({0.0f, -0.0f, NAN}, {kInf, -kInf, NAN});
  expect_values<Reciprocal>({kInf, -kInf, NAN, 0.0f, -0.0f}, {0, 0, NAN, kInf, -kInf});
}

}  // namespace
}  // namespace ws
