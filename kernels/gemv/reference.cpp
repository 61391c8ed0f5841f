// What gemv computes, in double precision; its shapes, cost and tolerance, and the problems to
// verify and to time.
#include <algorithm>
#include <cmath>

#include "kernels/gemv/operations.hpp"

namespace ws::gemv {
namespace {

using enum Gemv::Layout;

bool is_transposed(const Problem& problem) { return problem.choice<Gemv::Layout>("layout") == kT; }

}  // namespace

Call Gemv::call(const Problem& problem) {
  const Tensor& a = problem.tensor(0);
  const Tensor& x = problem.tensor(1);
  const Tensor& y = problem.tensor(2);
  const int row = is_transposed(problem) ? 1 : 0;
  const int64_t m = a.extent(row);
  const int64_t k = a.extent(1 - row);
  return {.dtype = a.dtype,
          .m = m,
          .k = k,
          .a = a.data,
          .row = m <= 1 ? 0 : a.stride(row),
          .column = k <= 1 ? 0 : a.stride(1 - row),
          .x = x.data,
          .x_step = k <= 1 ? 1 : x.stride(0),
          .y = y.data,
          .y_step = m <= 1 ? 1 : y.stride(0)};
}

// ---- Shapes -----------------------------------------------------------------------------------

void Gemv::infer(Problem& problem) {
  const Tensor& a = problem.tensor(0);
  const Tensor& x = problem.tensor(1);
  const bool transposed = is_transposed(problem);
  require(kDTypes.has(a.dtype), "gemv takes ", to_string(kDTypes), ", not ", a);
  require(a.rank == 2 && x.rank == 1 && a.dtype == x.dtype &&
              a.extent(transposed ? 0 : 1) == x.extent(0),
          "gemv with layout ", kLayouts[transposed ? 1 : 0], ": 'a' is ", a, ", 'x' is ", x,
          ": a matrix and a vector of its K and dtype are wanted");
  problem.tensor(2) = Tensor::dense(a.dtype, {a.extent(transposed ? 1 : 0)});
}

void Gemv::make(const Case& chosen, DType dtype, Problem& problem) {
  const int64_t m = chosen.extents[0];
  const int64_t k = chosen.extents[1];
  const int64_t step = std::max<int64_t>(chosen.extents[2], 1);
  Tensor& a = problem.tensor(0);
  a = is_transposed(problem) ? Tensor::dense(dtype, {k, m}) : Tensor::dense(dtype, {m, k});
  a.strides[0] += chosen.padding;
  problem.tensor(1) = Tensor::dense(dtype, {k});
  infer(problem);
  for (int i = 1; i < 3; ++i) problem.tensor(i).strides[0] = step;
}

// ---- Cost, tolerance, reference ---------------------------------------------------------------

Cost Gemv::cost(const Problem& problem) {
  const Call call = Gemv::call(problem);
  return {.bytes = least_traffic(problem),
          .flops = 2 * static_cast<double>(call.m) * static_cast<double>(call.k)};
}

// Outputs are sums of K products of standard normal numbers: their size is sqrt(K). They are
// rounded once; the f32 sum before that errs by its last bits: noise, which in the longest chain,
// naive's, grows with the root of K. Tensor cores, which take 16 bits, cut those bits off instead,
// which is a bias. The norm of few outputs may be far from its expectation: theirs is not asked
// for.
Tolerance Gemv::tolerance(const Problem& problem, const Parameter& /*output*/) {
  const auto k = static_cast<double>(call(problem).k);
  const DType dtype = problem.dtype();
  const double rounding = dtype == DType::kBf16  ? std::ldexp(1.0, -8)
                          : dtype == DType::kF16 ? std::ldexp(1.0, -11)
                                                 : std::ldexp(1.0, -24);
  const double cut = dtype == DType::kF32 ? 0 : k / 128;
  const double accumulation = std::ldexp(1.0, -23) * (4 + std::sqrt(k) + cut);
  const bool has_many = problem.tensor(2).elements() >= 64;
  return {.relative = has_many ? rounding + accumulation : 0,
          .worst = 1.01 * rounding + 8 * accumulation,
          .floor = std::sqrt(k) + std::ldexp(1.0, -14)};
}

int64_t Gemv::items(const Problem& problem, const Parameter& /*output*/) {
  return problem.tensor(2).extent(0);
}

void Gemv::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const Call call = Gemv::call(problem);
  const int64_t rows = slice.last - slice.first;
  double* const y = expected[2];
  std::fill(y, y + rows, 0.0);
  with_type<kFloats>(call.dtype, [&]<class T>() {
    const T* a = static_cast<const T*>(call.a) + slice.first * call.row;
    const T* x = static_cast<const T*>(call.x);
    const auto add = [&](int64_t i, int64_t j) {
      y[i] += static_cast<double>(to_float(a[i * call.row + j * call.column])) *
              static_cast<double>(to_float(x[j * call.x_step]));
    };
    // A is read as it lies.
    if (call.has_rows()) {
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < call.k; ++j) add(i, j);
      }
    } else {
      for (int64_t j = 0; j < call.k; ++j) {
        for (int64_t i = 0; i < rows; ++i) add(i, j);
      }
    }
  });
}

// ---- Cases ------------------------------------------------------------------------------------

namespace {

constexpr std::array kSmoke = {shape(40, 96, kN), shape(19, 37, kN, 3, 1), shape(72, 50, kT),
                               shape(21, 9, kT, 0, 0, 2)};

// Around 4 and 8 elements of a vector, lanes, warps and blocks; K that fills a block's loads and
// does not, few rows that are shared out among blocks; rows aligned to 16 bytes and not; gaps.
constexpr std::array kVerify = {
    shape(1, 1, kN),           shape(0, 8, kN),
    shape(5, 0, kN),           shape(8, 0, kT),
    shape(1, 16, kN),          shape(33, 16, kN),
    shape(301, 24, kN),        shape(70, 128, kN),
    shape(67, 136, kN, 8),     shape(65, 257, kN, 7),
    shape(65, 257, kN),        shape(19, 4099, kN),
    shape(40, 1032, kN, 0, 8), shape(40, 1032, kN, 0, 1),
    shape(130, 1100, kN, 4),   shape(1, 70000, kN),
    shape(2, 20008, kN, 8),    shape(3, 40003, kN, 5),
    shape(7, 33000, kN),       shape(30, 70, kN, 2, 0, 3),
    shape(1, 300, kT),         shape(300, 1, kT),
    shape(8, 5003, kT),        shape(4, 3000, kT),
    shape(3, 9000, kT),        shape(264, 129, kT, 8),
    shape(1032, 67, kT, 0, 8), shape(1032, 67, kT, 0, 1),
    shape(521, 300, kT),       shape(9, 1200, kT, 0, 3),
    shape(517, 129, kT, 2, 5), shape(2051, 300, kT),
    shape(2056, 40, kT),       shape(45, 61, kT, 5, 0, 2),
};

constexpr int64_t kMillion = int64_t{1} << 20;
constexpr std::array kBench = {
    shape(4096, 4096, kN),   shape(4096, 4096, kT),    shape(16384, 16384, kN),
    shape(16384, 16384, kT), shape(8192, 28672, kN),   shape(8192, 28672, kT),
    shape(28672, 8192, kN),  shape(28672, 8192, kT),   shape(1, kMillion, kN),
    shape(4, kMillion, kN),  shape(16, kMillion, kN),  shape(64, kMillion, kN),
    shape(16, kMillion, kT), shape(64, kMillion, kT),  shape(kMillion, 16, kN),
    shape(kMillion, 64, kN), shape(kMillion, 128, kN), shape(kMillion, 64, kT),
    shape(4095, 4097, kN),   shape(4095, 4097, kT),
};

}  // namespace

Cases Gemv::cases() { return {kSmoke, kVerify, kBench}; }

}  // namespace ws::gemv
