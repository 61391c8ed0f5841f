// The operations of the family in double precision; their shapes, cost and tolerance, and the
// problems to verify and to time.
#include "kernels/gemm/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "catalogue/fill.hpp"
#include "kernels/linear/operations.hpp"

namespace ws::linear {
namespace {

double apply(Activation activation, double x) {
  switch (activation) {
    case Activation::kRelu: return x < 0 ? 0 : x;
    case Activation::kGelu: return 0.5 * x * std::erfc(-x * M_SQRT1_2);
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x)));
    case Activation::kSilu: return x / (1 + std::exp(-x));
    default: return x;
  }
}

// Both factors are matrices of one dtype and fit each other.
void check_product(std::string_view name, const Tensor& a, const Tensor& b) {
  const auto fail = [&](const std::string& what) {
    throw InvalidArgument(concatenate(name, " ", what, ", got ", a, " and ", b));
  };
  if (a.rank != 2 || b.rank != 2) [[unlikely]]
    fail("multiplies matrices");
  if (a.dtype != b.dtype) [[unlikely]]
    fail("takes one dtype");
  if (!kFloats.has(a.dtype)) [[unlikely]]
    fail("takes f32, f16 and bf16");
}

// A matrix of a case: transposed in memory or not.
Tensor laid(DType dtype, int64_t rows, int64_t columns, bool transposed, int64_t padding) {
  Tensor tensor = Tensor::dense(dtype, {rows, columns});
  const int64_t leading = (transposed ? rows : columns) + padding;
  tensor.strides = {transposed ? 1 : leading, transposed ? leading : 1};
  return tensor;
}

// Where c is stored by columns, the same call from the other side.
template <class C>
C by_rows(const C& call) {
  return call.c.contiguous == gemm::Contiguous::kRows ? transposed(call) : call;
}

// Whether factors of f32 may be cut; both operations have theirs behind what is added.
bool allows_tf32(const Problem& problem) {
  using enum gemm::Gemm::Precision;
  return problem.tensor(1).dtype == DType::kF32 &&
         problem.choice<gemm::Gemm::Precision>("precision") == kTf32;
}

Cost product_cost(const Problem& problem, int64_t m, int64_t n, int64_t k) {
  return {.bytes = least_traffic(problem),
          .flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k)};
}

// Standard normal numbers; of a weight they are so small that a sum of K products is of the size
// of 1, as in a layer that was initialised, where activations bend.
void fill_factor(const Tensor& tensor, int64_t k, bool is_weight, uint64_t seed) {
  const double scale = is_weight ? 1 / std::sqrt(static_cast<double>(std::max<int64_t>(k, 1))) : 1;
  fill_with(tensor,
            [&](int64_t i) { return scale * random_normal(seed, static_cast<uint64_t>(i)); });
}

// The slope of an activation is 1.13 at most.
constexpr double kSlope = 1.13;
// What elementwise/functors.hpp says of them.
constexpr double kFunctor = 1e-6;

}  // namespace

// ---- addmm --------------------------------------------------------------------------------------

Call Addmm::call(const Problem& problem) {
  const Tensor& y = problem.tensor(3);
  Call call;
  call.dtype = call.source_dtype = problem.dtype();
  call.out_dtype = y.dtype;
  call.m = y.extent(0);
  call.n = y.extent(1);
  call.k = problem.tensor(1).extent(1);
  call.a = gemm::matrix_of(problem.tensor(1), false);
  call.b = gemm::matrix_of(problem.tensor(2), false);
  call.c = gemm::matrix_of(y, false);
  call.tf32 = allows_tf32(problem);
  call.alpha = static_cast<float>(problem.number("alpha"));
  call.beta = static_cast<float>(problem.number("beta"));
  call.activation = problem.choice<Activation>("activation");
  call.source = gemm::matrix_of(broadcast(problem.tensor(0), y), false);
  if (call.beta == 0) call.source.data = nullptr;
  return by_rows(call);
}

// What a product is multiplied by, in f32.
void check_factors(const Problem& problem) {
  for (const std::string_view name : {"alpha", "beta"}) {
    const double factor = problem.number(name);
    if (std::isfinite(factor) && !std::isfinite(static_cast<float>(factor))) [[unlikely]] {
      throw InvalidArgument(
          concatenate(problem.operation->name, ": ", name, " is ", factor, ", beyond f32"));
    }
  }
}

void Addmm::infer(Problem& problem) {
  const Tensor& input = problem.tensor(0);
  const Tensor& a = problem.tensor(1);
  const Tensor& b = problem.tensor(2);
  check_product("addmm", a, b);
  check_factors(problem);
  if (a.extent(1) != b.extent(0)) [[unlikely]] {
    throw InvalidArgument(concatenate("addmm takes one K, not ", a.extent(1), " of mat1 ", a,
                                      " and ", b.extent(0), " of mat2 ", b));
  }
  if (input.dtype != a.dtype) [[unlikely]] {
    throw InvalidArgument(concatenate("addmm takes one dtype, got input ", input, " and mat1 ", a));
  }
  const bool wide = !problem.attribute("out_dtype").is_absent();
  Tensor& y = problem.tensor(3);
  y = Tensor::dense(wide ? DType::kF32 : a.dtype, {a.extent(0), b.extent(1)});
  if (!broadcast(input, y).exists()) [[unlikely]] {
    throw InvalidArgument(concatenate("addmm: input ", input, " does not broadcast to [",
                                      a.extent(0), ", ", b.extent(1), "]"));
  }
}

void Addmm::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [m, n, k, input, views, unused1, unused2, unused3] = chosen.extents;
  const int64_t padding = chosen.padding;
  switch (input) {
    case kMatrix: problem.tensor(0) = laid(dtype, m, n, false, padding); break;
    case kMatrixTransposed: problem.tensor(0) = laid(dtype, m, n, true, padding); break;
    case kColumn: problem.tensor(0) = Tensor::dense(dtype, {m, 1}); break;
    case kScalar: problem.tensor(0) = Tensor::dense(dtype, {}); break;
    default: problem.tensor(0) = Tensor::dense(dtype, {n});
  }
  problem.tensor(1) = laid(dtype, m, k, (views & kFirstTransposed) != 0, padding);
  problem.tensor(2) = laid(dtype, k, n, (views & kSecondTransposed) != 0, padding);
  infer(problem);
  problem.tensor(3) =
      laid(problem.tensor(3).dtype, m, n, (views & kOutputTransposed) != 0, padding);
}

Cost Addmm::cost(const Problem& problem) {
  const Tensor& y = problem.tensor(3);
  Cost cost = product_cost(problem, y.extent(0), y.extent(1), problem.tensor(1).extent(1));
  if (problem.number("beta") == 0) {
    const Tensor input = without_repeats(problem.tensor(0));
    cost.bytes -= static_cast<double>(input.elements()) * static_cast<double>(size_of(input.dtype));
  }
  return cost;
}

// The sum before the activation is of the size of `scale`, and errs by its product's additions; an
// activation of small numbers halves them, but not their error.
Tolerance Addmm::tolerance(const Problem& problem, const Parameter& /*output*/) {
  const double alpha = std::abs(problem.number("alpha"));
  const double beta = problem.number("beta");
  // Not hypot, for which wheels would ask for glibc 2.35.
  const double scale = std::sqrt(alpha * alpha + beta * beta);
  const bool bends = problem.choice<Activation>("activation") != Activation::kNone;
  const double cut = allows_tf32(problem) ? std::ldexp(1.0, -10) : 0;  // as gemm has it
  const double error =
      accumulation_error(problem.tensor(1).extent(1)) + rounding_error(DType::kF32) + cut;
  const double after = bends ? 2.3 * kSlope * error + kFunctor : error;
  const double rounding = rounding_error(problem.tensor(3).dtype);
  return {.relative = rounding + after,
          .worst = 1.01 * rounding + 8 * after,
          .floor = scale + std::ldexp(1.0, -14)};
}

int64_t Addmm::items(const Problem& problem, const Parameter& /*output*/) {
  return problem.tensor(3).extent(0);
}

void Addmm::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const Tensor& y = problem.tensor(3);
  const int64_t n = y.extent(1);
  const auto activation = problem.choice<Activation>("activation");
  const double alpha = problem.number("alpha");
  const double beta = problem.number("beta");
  const Tensor input = broadcast(problem.tensor(0), y);
  gemm::reference_product(problem.dtype(), gemm::matrix_of(problem.tensor(1), false),
                          gemm::matrix_of(problem.tensor(2), false), n, problem.tensor(1).extent(1),
                          slice, expected[3]);
  const int64_t first = slice.first * n;
  for (int64_t i = 0; i < (slice.last - slice.first) * n; ++i) {
    const double added = beta == 0 ? 0 : beta * element(input, first + i);
    expected[3][i] = apply(activation, alpha * expected[3][i] + added);
  }
}

// An input that is not read may be anything: NaN.
void Addmm::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  if (index == 0 && problem.number("beta") == 0) {
    fill_with(tensor, [](int64_t) { return std::numeric_limits<double>::quiet_NaN(); });
  } else {
    fill_factor(tensor, problem.tensor(1).extent(1), index == 2, seed);
  }
}

// ---- baddbmm ------------------------------------------------------------------------------------

Baddbmm::Call Baddbmm::call(const Problem& problem) {
  const Tensor& y = problem.tensor(3);
  Call call;
  call.dtype = problem.tensor(1).dtype;
  call.out_dtype = y.dtype;
  call.source_dtype = problem.tensor(0).dtype;
  call.batch = y.extent(0);
  call.m = y.extent(1);
  call.n = y.extent(2);
  call.k = problem.tensor(1).extent(2);
  call.a = gemm::matrix_of(problem.tensor(1), false);
  call.b = gemm::matrix_of(problem.tensor(2), false);
  call.c = gemm::matrix_of(y, false);
  call.tf32 = allows_tf32(problem);
  call.alpha = static_cast<float>(problem.number("alpha"));
  call.beta = static_cast<float>(problem.number("beta"));
  call.source = gemm::matrix_of(broadcast(problem.tensor(0), y), false);
  if (call.beta == 0) {
    call.source.data = nullptr;
    call.source_dtype = call.dtype;  // of nothing: no kernels of its own
  }
  return by_rows(call);
}

void Baddbmm::infer(Problem& problem) {
  const Tensor& input = problem.tensor(0);
  const Tensor& a = problem.tensor(1);
  const Tensor& b = problem.tensor(2);
  gemm::check_batches("baddbmm", a, b);
  check_factors(problem);
  const bool wide = !problem.attribute("out_dtype").is_absent();
  if (input.dtype != a.dtype && !(wide && input.dtype == DType::kF32)) [[unlikely]] {
    throw InvalidArgument(
        concatenate("baddbmm takes an input of the dtype of batch1, or of f32 "
                    "where out_dtype is, got input ",
                    input, " and batch1 ", a));
  }
  Tensor& y = problem.tensor(3);
  y = Tensor::dense(wide ? DType::kF32 : a.dtype, {a.extent(0), a.extent(1), b.extent(2)});
  if (!broadcast(input, y).exists()) [[unlikely]] {
    throw InvalidArgument(concatenate("baddbmm: input ", input, " does not broadcast to [",
                                      y.extent(0), ", ", y.extent(1), ", ", y.extent(2), "]"));
  }
}

void Baddbmm::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [batch, m, n, k, input, views, unused1, unused2] = chosen.extents;
  const auto lay = [&](DType type, int64_t rows, int64_t columns, int turned) {
    Tensor tensor = Tensor::dense(type, {batch, rows, columns});
    const bool transposed = (views & turned) != 0;
    const int64_t leading = (transposed ? rows : columns) + chosen.padding;
    tensor.strides = {leading * (transposed ? columns : rows), transposed ? 1 : leading,
                      transposed ? leading : 1};
    return tensor;
  };
  switch (input) {
    case kMatrix: problem.tensor(0) = Tensor::dense(dtype, {m, n}); break;
    case kBias: problem.tensor(0) = Tensor::dense(dtype, {n}); break;
    case kScalar: problem.tensor(0) = Tensor::dense(dtype, {}); break;
    case kF32OverF16:
    case kF32OverBf16: problem.tensor(0) = lay(DType::kF32, m, n, kOutputTransposed); break;
    default: problem.tensor(0) = lay(dtype, m, n, kOutputTransposed);
  }
  const DType of_products = input == kF32OverF16    ? DType::kF16
                            : input == kF32OverBf16 ? DType::kBf16
                                                    : dtype;
  problem.tensor(1) = lay(of_products, m, k, kFirstTransposed);
  problem.tensor(2) = lay(of_products, k, n, kSecondTransposed);
  infer(problem);
  problem.tensor(3) = lay(problem.tensor(3).dtype, m, n, kOutputTransposed);
}

Cost Baddbmm::cost(const Problem& problem) {
  const Tensor& y = problem.tensor(3);
  Cost cost =
      product_cost(problem, y.extent(0) * y.extent(1), y.extent(2), problem.tensor(1).extent(2));
  if (problem.number("beta") == 0) {
    const Tensor input = without_repeats(problem.tensor(0));
    cost.bytes -= static_cast<double>(input.elements()) * static_cast<double>(size_of(input.dtype));
  }
  return cost;
}

// Products are of the size of sqrt(K), for both factors are of 1, and so is what is added.
Tolerance Baddbmm::tolerance(const Problem& problem, const Parameter& /*output*/) {
  const Call call = Baddbmm::call(problem);
  const double alpha = std::abs(problem.number("alpha"));
  const double beta = problem.number("beta");
  const auto k = static_cast<double>(call.k);
  const double scale = std::sqrt(alpha * alpha * k + beta * beta);
  Tolerance allowed = product_tolerance(call.out_dtype, call.k);
  const double cut = call.tf32 ? std::ldexp(1.0, -10) : 0;  // as gemm has it
  const double added = 2 * rounding_error(DType::kF32) + cut;
  allowed.relative += added;
  allowed.worst += 4 * added;
  allowed.floor = scale + std::ldexp(1.0, -14);
  return allowed;
}

int64_t Baddbmm::items(const Problem& problem, const Parameter& /*output*/) {
  const Tensor& y = problem.tensor(3);
  return y.extent(0) * y.extent(1);
}

// Slices are rows of the products, one product after the other.
void Baddbmm::reference(const Problem& problem, Slice slice, std::span<double* const> expected) {
  const Tensor& y = problem.tensor(3);
  const int64_t m = y.extent(1);
  const int64_t n = y.extent(2);
  const DType dtype = problem.tensor(1).dtype;
  const double alpha = problem.number("alpha");
  const double beta = problem.number("beta");
  const Tensor input = broadcast(problem.tensor(0), y);
  const auto of_product = [&](int i, int64_t product) {
    Matrix matrix = gemm::matrix_of(problem.tensor(i), false);
    matrix.data =
        matrix.as<std::byte>() + product * matrix.batch * static_cast<int64_t>(size_of(dtype));
    return matrix;
  };
  for (int64_t at = slice.first; at < slice.last;) {
    const int64_t product = at / m;
    const int64_t last = std::min(slice.last, (product + 1) * m);
    gemm::reference_product(dtype, of_product(1, product), of_product(2, product), n,
                            problem.tensor(1).extent(2), {at - product * m, last - product * m},
                            expected[3] + (at - slice.first) * n);
    at = last;
  }
  const int64_t first = slice.first * n;
  for (int64_t i = 0; i < (slice.last - slice.first) * n; ++i) {
    const double added = beta == 0 ? 0 : beta * element(input, first + i);
    expected[3][i] = alpha * expected[3][i] + added;
  }
}

// An input that is not read may be anything: NaN.
void Baddbmm::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  if (index == 0 && problem.number("beta") == 0) {
    fill_with(tensor, [](int64_t) { return std::numeric_limits<double>::quiet_NaN(); });
  } else {
    fill_normal(tensor, seed);
  }
}

// ---- swiglu_linear ------------------------------------------------------------------------------

GatedCall SwigluLinear::call(const Problem& problem) {
  const Tensor& y = problem.tensor(2);
  GatedCall call;
  call.dtype = problem.dtype();
  call.m = y.extent(0);
  call.n = y.extent(1);
  call.k = problem.tensor(0).extent(1);
  call.a = gemm::matrix_of(problem.tensor(0), false);
  call.b = gemm::matrix_of(problem.tensor(1), true);
  call.c = gemm::matrix_of(y, false);
  return call;
}

void SwigluLinear::infer(Problem& problem) {
  const Tensor& x = problem.tensor(0);
  const Tensor& weight = problem.tensor(1);
  check_product("swiglu_linear", x, weight);
  if (x.extent(1) != weight.extent(1)) [[unlikely]] {
    throw InvalidArgument(concatenate("swiglu_linear takes one K, not ", x.extent(1), " of x ", x,
                                      " and ", weight.extent(1), " of weight ", weight));
  }
  if (weight.extent(0) % 2 != 0) [[unlikely]] {
    throw InvalidArgument(
        concatenate("swiglu_linear: weight ", weight, " has an odd number of rows, no two halves"));
  }
  problem.tensor(2) = Tensor::dense(x.dtype, {x.extent(0), weight.extent(0) / 2});
}

void SwigluLinear::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [m, f, k, views, unused1, unused2, unused3, unused4] = chosen.extents;
  problem.tensor(0) = laid(dtype, m, k, (views & kFirstTransposed) != 0, chosen.padding);
  problem.tensor(1) = laid(dtype, 2 * f, k, (views & kSecondTransposed) != 0, chosen.padding);
  infer(problem);
  problem.tensor(2) = laid(dtype, m, f, (views & kOutputTransposed) != 0, chosen.padding);
}

Cost SwigluLinear::cost(const Problem& problem) {
  const Tensor& x = problem.tensor(0);
  return product_cost(problem, x.extent(0), problem.tensor(1).extent(0), x.extent(1));
}

// Gate and sum are of the size of 1 and err alike; silu's slope takes the gate's error along. The
// result is half as large.
Tolerance SwigluLinear::tolerance(const Problem& problem, const Parameter& /*output*/) {
  const double error = accumulation_error(problem.tensor(0).extent(1));
  const double after = 2 * (1 + kSlope) * error + kFunctor;
  const double rounding = rounding_error(problem.dtype());
  return {.relative = rounding + after, .worst = 1.01 * rounding + 16 * after, .floor = 1};
}

int64_t SwigluLinear::items(const Problem& problem, const Parameter& /*output*/) {
  return problem.tensor(2).extent(0);
}

void SwigluLinear::reference(const Problem& problem, Slice slice,
                             std::span<double* const> expected) {
  const int64_t f = problem.tensor(2).extent(1);
  const int64_t rows = slice.last - slice.first;
  std::vector<double> both(static_cast<size_t>(rows * 2 * f));
  gemm::reference_product(problem.dtype(), gemm::matrix_of(problem.tensor(0), false),
                          gemm::matrix_of(problem.tensor(1), true), 2 * f,
                          problem.tensor(0).extent(1), slice, both.data());
  for (int64_t i = 0; i < rows; ++i) {
    const double* gate = both.data() + i * 2 * f;
    for (int64_t j = 0; j < f; ++j) {
      expected[2][i * f + j] = apply(Activation::kSilu, gate[j]) * gate[f + j];
    }
  }
}

void SwigluLinear::fill(const Problem& problem, int index, uint64_t seed) {
  fill_factor(problem.tensor(index), problem.tensor(0).extent(1), index == 1, seed);
}

// ---- gemm_accumulate ----------------------------------------------------------------------------

Call GemmAccumulate::call(const Problem& problem) {
  const Tensor& c = problem.tensor(2);
  Call call;
  call.dtype = problem.dtype();
  call.out_dtype = call.source_dtype = DType::kF32;
  call.m = c.extent(0);
  call.n = c.extent(1);
  call.k = problem.tensor(0).extent(1);
  call.a = gemm::matrix_of(problem.tensor(0), false);
  call.b = gemm::matrix_of(problem.tensor(1), false);
  call.c = call.source = gemm::matrix_of(c, false);
  return by_rows(call);
}

void GemmAccumulate::infer(Problem& problem) {
  const Tensor& a = problem.tensor(0);
  const Tensor& b = problem.tensor(1);
  const Tensor& c = problem.tensor(2);
  check_product("gemm_accumulate", a, b);
  if (a.extent(1) != b.extent(0)) [[unlikely]] {
    throw InvalidArgument(concatenate("gemm_accumulate takes one K, not ", a.extent(1), " of a ", a,
                                      " and ", b.extent(0), " of b ", b));
  }
  if (c.dtype != DType::kF32 || c.rank != 2 || c.extent(0) != a.extent(0) ||
      c.extent(1) != b.extent(1)) [[unlikely]] {
    throw InvalidArgument(concatenate("gemm_accumulate adds to a c of f32 [", a.extent(0), ", ",
                                      b.extent(1), "], not to ", c));
  }
}

void GemmAccumulate::make(const Case& chosen, DType dtype, Problem& problem) {
  const auto [m, n, k, views, unused1, unused2, unused3, unused4] = chosen.extents;
  problem.tensor(0) = laid(dtype, m, k, (views & kFirstTransposed) != 0, chosen.padding);
  problem.tensor(1) = laid(dtype, k, n, (views & kSecondTransposed) != 0, chosen.padding);
  problem.tensor(2) = laid(DType::kF32, m, n, (views & kOutputTransposed) != 0, chosen.padding);
}

// c is read and written.
Cost GemmAccumulate::cost(const Problem& problem) {
  const Tensor& c = problem.tensor(2);
  Cost cost = product_cost(problem, c.extent(0), c.extent(1), problem.tensor(0).extent(1));
  cost.bytes += static_cast<double>(c.elements()) * 4;
  return cost;
}

// The product is of the size of sqrt(K), c of 1.
Tolerance GemmAccumulate::tolerance(const Problem& problem, const Parameter& /*output*/) {
  const int64_t k = problem.tensor(0).extent(1);
  const double error = accumulation_error(k) + 2 * rounding_error(DType::kF32);
  return {.relative = error, .worst = 8 * error, .floor = std::sqrt(static_cast<double>(k)) + 1};
}

int64_t GemmAccumulate::items(const Problem& problem, const Parameter& /*output*/) {
  return problem.tensor(2).extent(0);
}

void GemmAccumulate::reference(const Problem& problem, Slice slice,
                               std::span<double* const> expected) {
  const Tensor& c = problem.tensor(2);
  const int64_t n = c.extent(1);
  gemm::reference_product(problem.dtype(), gemm::matrix_of(problem.tensor(0), false),
                          gemm::matrix_of(problem.tensor(1), false), n, problem.tensor(0).extent(1),
                          slice, expected[2]);
  for (int64_t i = 0; i < (slice.last - slice.first) * n; ++i) {
    expected[2][i] += element(c, slice.first * n + i);
  }
}

// ---- Cases --------------------------------------------------------------------------------------

namespace {

using enum Activation;

// What a call of addmm asks beside a product.
struct Asks {
  Activation activation = kNone;
  double alpha = 1;
  double beta = 1;
  bool wide = false;
  bool tf32 = false;
};

constexpr Case in_tf32(Case chosen, size_t precision) {
  chosen.attributes[precision] = Value::choice(static_cast<int>(gemm::Gemm::Precision::kTf32));
  chosen.dtypes = {DType::kF32};
  return chosen;
}

constexpr Case addmm(int64_t m, int64_t n, int64_t k, int input = Addmm::kBias, int views = 0,
                     const Asks& asks = {}, int64_t padding = 0, int offset = 0) {
  Case chosen{.extents = {m, n, k, input, views}, .offset = offset, .padding = padding};
  chosen.attributes[0] = asks.beta;
  chosen.attributes[1] = asks.alpha;
  chosen.attributes[2] = Value::choice(static_cast<int>(asks.activation));
  if (asks.wide) chosen.attributes[3] = Value::choice(0);
  return asks.tf32 ? in_tf32(chosen, 4) : chosen;
}
constexpr Case product(int64_t m, int64_t n, int64_t k, int views = 0, int64_t padding = 0,
                       int offset = 0) {
  return {.extents = {m, n, k, views}, .offset = offset, .padding = padding};
}

// What a call of baddbmm asks beside products.
struct BatchAsks {
  double alpha = 1;
  double beta = 1;
  bool wide = false;
  bool tf32 = false;
};
constexpr Case baddbmm(int64_t batch, int64_t m, int64_t n, int64_t k, int input = Baddbmm::kWhole,
                       int views = 0, const BatchAsks& asks = {}, int64_t padding = 0,
                       int offset = 0) {
  Case chosen{.extents = {batch, m, n, k, input, views}, .offset = offset, .padding = padding};
  chosen.attributes[0] = asks.beta;
  chosen.attributes[1] = asks.alpha;
  const bool adds_f32 = input == Baddbmm::kF32OverF16 || input == Baddbmm::kF32OverBf16;
  if (asks.wide || adds_f32) chosen.attributes[2] = Value::choice(0);
  if (adds_f32) chosen.dtypes = {DType::kF32};
  return asks.tf32 ? in_tf32(chosen, 3) : chosen;
}

constexpr auto kAT = kFirstTransposed;
constexpr auto kBT = kSecondTransposed;
constexpr auto kYT = kOutputTransposed;

constexpr std::array kAddmmSmoke = {
    addmm(24, 40, 16),
    addmm(24, 40, 16, Addmm::kBias, kBT, {.activation = kGelu}),
    addmm(40, 24, 32, Addmm::kMatrix, 0, {.activation = kSilu, .alpha = 0.5, .beta = -2}),
    addmm(16, 24, 8, Addmm::kScalar, kAT, {.activation = kRelu, .beta = 0, .wide = true}),
    addmm(9, 13, 21, Addmm::kColumn, kBT, {.activation = kGeluTanh}, 3),
    addmm(24, 40, 16, Addmm::kBias, kBT, {.activation = kGelu, .tf32 = true}),
};
// Tiles of 64, 128 and 256 and their edges; every layout; what is added in each of its shapes.
constexpr std::array kAddmmVerify = {
    addmm(1, 1, 1),
    addmm(0, 8, 8),
    addmm(3, 5, 0),
    addmm(8, 16, 0, Addmm::kMatrix, 0, {.activation = kGelu, .beta = 3}),
    addmm(72, 136, 72, Addmm::kBias, 0, {.alpha = 0}),
    addmm(128, 256, 64, Addmm::kBias, kBT, {.activation = kRelu}),
    addmm(136, 264, 136, Addmm::kBias, kBT, {.activation = kGelu}),
    addmm(264, 136, 72, Addmm::kBias, kAT | kBT, {.activation = kGeluTanh}),
    addmm(264, 520, 136, Addmm::kMatrix, kBT, {.activation = kSilu, .alpha = 0.5, .beta = -2}),
    addmm(136, 264, 72, Addmm::kMatrixTransposed, kAT, {.beta = 2}),
    addmm(136, 264, 72, Addmm::kColumn, 0, {.activation = kSilu}),
    addmm(136, 264, 72, Addmm::kScalar, 0, {.activation = kGelu, .beta = 0}),
    addmm(136, 264, 72, Addmm::kBias, kYT, {.activation = kGelu}),
    addmm(136, 264, 72, Addmm::kMatrix, kYT | kBT, {.activation = kRelu, .wide = true}),
    addmm(264, 520, 136, Addmm::kBias, kBT, {.activation = kGelu, .wide = true}),
    addmm(136, 268, 72, Addmm::kMatrix, 0, {.wide = true}, 4),
    addmm(136, 264, 72, Addmm::kBias, kBT, {.activation = kGelu}, 8),
    addmm(130, 258, 66, Addmm::kBias, kBT, {.activation = kGelu}),
    addmm(129, 257, 65, Addmm::kMatrix, 0, {.activation = kSilu}, 1),
    addmm(129, 257, 65, Addmm::kBias, kAT, {.activation = kGelu, .wide = true}, 7),
    addmm(160, 96, 200, Addmm::kBias, kBT, {.activation = kRelu}, 0, 1),
    addmm(160, 96, 200, Addmm::kMatrix, kBT, {.activation = kRelu}, 0, 8),
    addmm(1, 300, 129, Addmm::kBias, kBT, {.activation = kGelu}),
    addmm(20, 264, 1000, Addmm::kBias, kBT, {.activation = kGelu}),
    addmm(264, 20, 520, Addmm::kMatrix, 0, {.activation = kSilu, .wide = true}),
    addmm(136, 264, 136, Addmm::kBias, kBT, {.activation = kGelu, .tf32 = true}),
    addmm(264, 136, 72, Addmm::kMatrix, kAT, {.alpha = 0.5, .beta = -2, .tf32 = true}),
    addmm(136, 264, 72, Addmm::kMatrix, kYT | kBT, {.activation = kRelu, .tf32 = true}),
    addmm(129, 257, 65, Addmm::kBias, 0, {.activation = kSilu, .tf32 = true}, 1),
};
// The layers of a transformer: with a bias, up with an activation, down with a residual; of few
// rows.
constexpr std::array kAddmmBench = {
    addmm(4096, 4096, 4096, Addmm::kBias, kBT),
    addmm(4096, 16384, 4096, Addmm::kBias, kBT, {.activation = kGelu}),
    addmm(4096, 16384, 4096, Addmm::kBias, kBT, {.activation = kGeluTanh}),
    addmm(4096, 16384, 4096, Addmm::kBias, kBT, {.activation = kRelu}),
    addmm(4096, 4096, 16384, Addmm::kMatrix, kBT),
    addmm(8192, 8192, 1024, Addmm::kBias, kBT, {.activation = kSilu}),
    addmm(8192, 8192, 1024, Addmm::kMatrix, kBT),
    addmm(1024, 1024, 1024, Addmm::kBias, kBT, {.activation = kGelu}),
    addmm(256, 4096, 4096, Addmm::kBias, kBT, {.activation = kGeluTanh}),
    addmm(64, 8192, 8192, Addmm::kBias, kBT),
    addmm(16, 4096, 4096, Addmm::kBias, kBT),
    addmm(4096, 4096, 4096, Addmm::kScalar, kAT, {.beta = 0, .wide = true}),
    addmm(4097, 4095, 4099, Addmm::kBias, 0, {.activation = kGelu}),
    addmm(4096, 4096, 4096, Addmm::kBias, kBT, {.tf32 = true}),
    addmm(4096, 16384, 4096, Addmm::kBias, kBT, {.activation = kGeluTanh, .tf32 = true}),
    addmm(4096, 4096, 4096, Addmm::kBias, 0, {.tf32 = true}),
    addmm(64, 8192, 8192, Addmm::kBias, kBT, {.tf32 = true}),
};

constexpr std::array kBatchSmoke = {
    baddbmm(3, 24, 40, 16),
    baddbmm(2, 9, 13, 21, Baddbmm::kMatrix, kBT, {.alpha = 0.5, .beta = -2}, 3),
    baddbmm(3, 16, 24, 8, Baddbmm::kBias, kAT, {.beta = 0, .wide = true}),
    baddbmm(3, 24, 40, 16, Baddbmm::kF32OverF16, 0, {.beta = 0.5}),
    baddbmm(3, 24, 40, 16, Baddbmm::kF32OverBf16, kBT, {.alpha = 2}),
    baddbmm(2, 24, 40, 16, Baddbmm::kWhole, kBT, {.tf32 = true}),
};
// Products that end within a tile and within a pair; what is added in each of its shapes, in f32,
// from the other side; every layout; rows that start anywhere.
constexpr std::array kBatchVerify = {
    baddbmm(1, 1, 1, 1),
    baddbmm(0, 8, 8, 8),
    baddbmm(3, 5, 7, 0, Baddbmm::kWhole, 0, {.beta = 3}),
    baddbmm(2, 128, 256, 64, Baddbmm::kScalar),
    baddbmm(3, 136, 264, 136, Baddbmm::kWhole, kAT, {.alpha = 0.5, .beta = -2}),
    baddbmm(3, 264, 136, 72, Baddbmm::kMatrix, kBT),
    baddbmm(4, 72, 200, 136, Baddbmm::kBias, kAT | kBT, {.alpha = 2}, 8),
    baddbmm(3, 136, 72, 72, Baddbmm::kWhole, kYT, {.beta = 2}),
    baddbmm(3, 136, 264, 72, Baddbmm::kWhole, kBT, {.beta = 0}),
    baddbmm(3, 136, 264, 72, Baddbmm::kWhole, kBT, {.beta = 2, .wide = true}),
    baddbmm(3, 136, 264, 72, Baddbmm::kF32OverF16, kAT),
    baddbmm(3, 136, 264, 72, Baddbmm::kF32OverBf16, kBT, {.beta = -1}),
    baddbmm(4, 72, 136, 40, Baddbmm::kF32OverBf16, kYT | kBT, {.beta = 0.5}),
    baddbmm(3, 131, 133, 67, Baddbmm::kWhole, kBT),
    baddbmm(3, 130, 66, 66, Baddbmm::kMatrix, 0, {}, 0, 1),
    baddbmm(3, 129, 67, 65, Baddbmm::kF32OverF16, kAT, {}, 1),
    baddbmm(3, 129, 67, 65, Baddbmm::kBias, kAT | kYT, {.wide = true}),
    baddbmm(70, 2, 3, 5, Baddbmm::kWhole),
    baddbmm(3, 136, 264, 72, Baddbmm::kWhole, kBT, {.beta = 2, .tf32 = true}),
    baddbmm(3, 129, 67, 65, Baddbmm::kMatrix, kAT, {.tf32 = true}),
};
// The products of bmm's bench to which something is added: scores and their bias, a residual.
constexpr std::array kBatchBench = {
    baddbmm(32, 1024, 1024, 1024),
    baddbmm(64, 512, 512, 64, Baddbmm::kWhole, kBT, {.alpha = 0.125}),
    baddbmm(64, 512, 512, 64, Baddbmm::kMatrix, kBT, {.alpha = 0.125}),
    baddbmm(64, 512, 64, 512),
    baddbmm(256, 128, 128, 128, Baddbmm::kBias),
    baddbmm(32, 1024, 1024, 1024, Baddbmm::kF32OverBf16),
    baddbmm(32, 1024, 1024, 1024, Baddbmm::kWhole, kBT, {.tf32 = true}),
};

constexpr std::array kGatedSmoke = {product(24, 40, 16),        product(9, 13, 21, kYT, 3),
                                    product(40, 72, 32, kBT),   product(24, 40, 16, kAT),
                                    product(9, 13, 21, kAT, 3), product(9, 16, 21, kAT | kBT, 3)};
constexpr std::array kGatedVerify = {
    product(1, 1, 1),
    product(0, 8, 8),
    product(3, 5, 0),
    product(128, 128, 64),
    product(136, 136, 72),
    product(264, 264, 136),
    product(136, 40, 72, 0, 8),
    product(520, 72, 200),
    product(136, 136, 72, kAT | kBT),
    product(136, 136, 72, kYT),
    product(33, 31, 65, 0, 1),
    product(64, 72, 64, 0, 0, 8),
    product(264, 200, 72, kAT),
    product(136, 200, 136, kBT),
    product(33, 31, 65, kAT, 1),
    product(33, 40, 65, kAT | kBT, 1),
};
constexpr std::array kGatedBench = {
    product(4096, 14336, 4096),
    product(8192, 8192, 2048),
    product(4096, 5632, 2048),
    product(1024, 14336, 4096),
};

constexpr std::array kAccumulateSmoke = {product(24, 40, 16, kAT), product(9, 13, 21, 0, 3),
                                         product(40, 24, 32, kBT | kYT)};
constexpr std::array kAccumulateVerify = {
    product(1, 1, 1),
    product(0, 8, 8),
    product(3, 5, 0),
    product(128, 256, 64, kAT),
    product(136, 264, 136, kAT),
    product(264, 136, 72),
    product(72, 520, 136, kBT),
    product(264, 524, 200, kAT | kBT, 4),
    product(136, 264, 72, kAT | kYT),
    product(130, 258, 66, kAT),
    product(129, 257, 65, kAT, 1),
    product(64, 64, 64, kAT, 0, 4),
};
// Weight gradients: [out, in] += [tokens, out]^T [tokens, in].
constexpr std::array kAccumulateBench = {
    product(4096, 4096, 4096, kAT),  product(4096, 4096, 16384, kAT),
    product(16384, 4096, 4096, kAT), product(4096, 14336, 8192, kAT),
    product(1024, 1024, 8192, kAT),
};

}  // namespace

Cases Addmm::cases() { return {kAddmmSmoke, kAddmmVerify, kAddmmBench}; }
Cases Baddbmm::cases() { return {kBatchSmoke, kBatchVerify, kBatchBench}; }
Cases SwigluLinear::cases() { return {kGatedSmoke, kGatedVerify, kGatedBench}; }
Cases GemmAccumulate::cases() { return {kAccumulateSmoke, kAccumulateVerify, kAccumulateBench}; }

}  // namespace ws::linear
