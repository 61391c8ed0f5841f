// The fused norms on the host: what a call is, and what it should give.
#include "kernels/fused/norms.hpp"

#include <cmath>
#include <vector>

#include "catalogue/fill.hpp"
#include "kernels/fused/operations.hpp"

namespace ws::fused {
namespace {

int64_t columns_of(const Problem& problem) {
  const Tensor& x = problem["x"];
  return x.extent(x.rank - 1);
}
Tensor numbers_like(const Tensor& x) {
  return Tensor::dense(DType::kF32, x.extents().first(static_cast<size_t>(x.rank - 1)));
}
[[noreturn]] void refuse(const Problem& problem, std::string_view name, std::string_view wanted) {
  throw InvalidArgument(concatenate(problem.operation->name, ": '", name, "' is ", problem[name],
                                    ", not ", wanted, "; 'x' is ", problem["x"]));
}

}  // namespace

template <bool kCentred>
void FusedNorm<kCentred>::infer(Problem& problem) {
  const Tensor& x = problem["x"];
  if (!kFloats.has(x.dtype) || x.rank < 1) [[unlikely]] {
    refuse(problem, "x", "of f32, f16 or bf16 with at least one dimension");
  }
  const Tensor& residual = problem["residual"];
  if (residual.exists() && (residual.dtype != x.dtype || !residual.same_shape(x))) [[unlikely]] {
    refuse(problem, "residual", "of the shape and dtype of x");
  }
  for (const std::string_view name : {"bias", "weight", "norm_bias"}) {
    const Tensor& tensor = problem.find(name);
    if (tensor.exists() && (tensor.dtype != x.dtype || tensor.rank != 1 ||
                            tensor.extent(0) != columns_of(problem))) [[unlikely]] {
      refuse(problem, name, "of the dtype of x with an element for each column");
    }
  }
  if constexpr (kCentred) {
    problem["y"] = Tensor::like(x);
    problem["sum"] = Tensor::like(x);
  } else {
    const Tensor& scale = problem["scale"];
    if (scale.exists() && (scale.dtype != DType::kF32 || scale.elements() != 1)) [[unlikely]] {
      refuse(problem, "scale", "of f32 with one element");
    }
    problem["y"] = Tensor::like(x, DType::kE4m3);
    problem["scales"] = scale.exists() ? Tensor{} : numbers_like(x);
    problem["sum"] = residual.exists() ? Tensor::like(x) : Tensor{};
  }
}

template <bool kCentred>
NormCall<kCentred> FusedNorm<kCentred>::call(const Problem& problem) {
  // A row's elements are read before they are written, but parameters are read by all rows.
  for (const std::string_view name : {"bias", "weight", "norm_bias"}) {
    const void* const data = problem.find(name).data;
    for (const std::string_view output : {"y", "sum", "scales"}) {
      if (data != nullptr && problem.find(output).data == data) [[unlikely]] {
        throw InvalidArgument(concatenate(problem.operation->name, ": '", output,
                                          "' may not be the memory of '", name, "'"));
      }
    }
  }
  NormCall<kCentred> call{};
  const Tensor& x = problem["x"];
  call.dtype = x.dtype;
  call.rows = row_layout(x, problem["residual"], problem["y"], problem["sum"]);
  call.bias = Columns(problem.find("bias"));
  call.weight = Columns(problem["weight"]);
  call.shift = Columns(problem.find("norm_bias"));
  call.eps = static_cast<float>(problem.number("eps"));
  if constexpr (!kCentred) {
    const Tensor& scale = problem["scale"];
    call.scale = scale.exists() ? scale.as<const float>() : nullptr;
    if (!scale.exists()) {  // rows of one element, as RowLayout wants them
      Tensor scales = problem["scales"];
      const auto last = static_cast<size_t>(scales.rank++);
      scales.shape[last] = 1;
      scales.strides[last] = 1;
      const Tensor* const only[] = {&scales};
      call.scales = row_layout<1>(std::span(only));
    }
  }
  return call;
}

template <bool kCentred>
void FusedNorm<kCentred>::make(const Case& chosen, DType dtype, Problem& problem) {
  const int64_t rows = chosen.extents[0];
  const int64_t columns = chosen.extents[1];
  const int64_t has = chosen.extents[3];
  const auto matrix = [&](bool transposed) {
    Tensor tensor = Tensor::dense(dtype, {rows, columns});
    tensor.strides[0] += chosen.padding;
    if (transposed) tensor.strides = {1, rows + chosen.padding};
    return tensor;
  };
  problem["x"] = matrix(chosen.extents[2] != 0);
  problem["weight"] = Tensor::dense(dtype, {columns});
  if constexpr (kCentred) {
    problem["residual"] = matrix(false);
    problem["bias"] = Tensor::dense(dtype, {columns});
    problem["norm_bias"] = Tensor::dense(dtype, {columns});
  } else {
    if ((has & kHasResidual) != 0) problem["residual"] = matrix(false);
    if ((has & kHasScale) != 0) problem["scale"] = Tensor::dense(DType::kF32, {});
  }
}

template <bool kCentred>
Cost FusedNorm<kCentred>::cost(const Problem& problem) {
  return cost_of(problem, 10);
}
template <bool kCentred>
int64_t FusedNorm<kCentred>::items(const Problem& problem, const Parameter& /*output*/) {
  const int64_t columns = columns_of(problem);
  return columns == 0 ? numbers_like(problem["x"]).elements() : problem["x"].elements() / columns;
}

// A sum that two numbers lie around, rounded the other way, is a unit in its last place off, and so
// is what is made of it. e4m3 has 3 bits behind its first; below 2^-6 steps of 2^-9.
template <bool kCentred>
Tolerance FusedNorm<kCentred>::tolerance(const Problem& problem, const Parameter& output) {
  // The norm of few elements is that of the worst of them: then each is judged alone.
  const bool has_norm = problem["x"].elements() >= 64;
  const auto of = [has_norm](double relative, double worst, double floor) {
    return Tolerance{.relative = has_norm ? relative : 0, .worst = worst, .floor = floor};
  };
  if (problem[output.name].dtype == DType::kE4m3) return of(0.04, 0.075, 0x1p-6);
  if (output.name == "scales" || problem.dtype() == DType::kF32) {
    const double more = problem.dtype() == DType::kF32   ? 1
                        : problem.dtype() == DType::kF16 ? 200
                                                         : 2000;
    // What a mean by one thread, element after element, is off by.
    const double walk = 0x1p-24 * std::sqrt(static_cast<double>(columns_of(problem)));
    return of(2e-6 * more + walk, 6e-6 * more + 4 * walk, 1);
  }
  if (problem.dtype() == DType::kF16) return of(7e-4, 1.6e-3, 1);
  return of(5e-3, 1.2e-2, 1);
}

template <bool kCentred>
void FusedNorm<kCentred>::reference(const Problem& problem, Slice slice,
                                    std::span<double* const> expected) {
  const Tensor& x = problem["x"];
  const Tensor& residual = problem["residual"];
  const Tensor& bias = problem.find("bias");
  const Tensor& shift = problem.find("norm_bias");
  const Tensor& scale = problem.find("scale");
  const int64_t columns = columns_of(problem);
  const double count = static_cast<double>(columns);
  const double eps = problem.number("eps");
  const auto to = [&](std::string_view name) -> double* {
    const int at = problem.operation->index_of(name);
    return at < 0 ? nullptr : expected[static_cast<size_t>(at)];
  };
  std::vector<double> h(static_cast<size_t>(columns));
  for (int64_t row = slice.first; row < slice.last; ++row) {
    const int64_t first = (row - slice.first) * columns;
    double mean = 0;
    for (int64_t i = 0; i < columns; ++i) {
      double sum = element(x, row * columns + i);
      if (bias.exists()) sum += element(bias, i);
      if (residual.exists()) sum += element(residual, row * columns + i);
      h[static_cast<size_t>(i)] = round_to(x.dtype, sum);
      mean += h[static_cast<size_t>(i)] / count;
      if (to("sum") != nullptr) to("sum")[first + i] = sum;
    }
    if (!kCentred) mean = 0;
    double squares = 0;
    for (const double v : h) squares += (v - mean) * (v - mean) / count;
    const double rstd = 1 / std::sqrt(squares + eps);
    double most = 0;
    for (int64_t i = 0; i < columns; ++i) {
      double& v = h[static_cast<size_t>(i)];
      v = (v - mean) * rstd * element(problem["weight"], i);
      if (shift.exists()) v += element(shift, i);
      most = std::max(most, std::abs(v));
    }
    double s = 1;
    if (!kCentred) {
      if (scale.exists()) {
        s = element(scale, 0);
      } else if (most > kLeastAmax) {
        s = most / kLargestE4m3;
      }
      if (to("scales") != nullptr) to("scales")[row - slice.first] = s;
    }
    for (int64_t i = 0; i < columns && to("y") != nullptr; ++i) {
      double v = h[static_cast<size_t>(i)] / s;
      if (!kCentred && !std::isnan(v)) v = std::clamp<double>(v, -kLargestE4m3, kLargestE4m3);
      to("y")[first + i] = v;
    }
  }
}

template <bool kCentred>
void FusedNorm<kCentred>::fill(const Problem& problem, int index, uint64_t seed) {
  const Tensor& tensor = problem.tensor(index);
  const std::string_view name = problem.operation->parameters[static_cast<size_t>(index)].name;
  if (name == "scale") return set_element(tensor, 0, 0.01);
  const double mean = name == "x" ? 3 : name == "weight" ? 1 : 0;
  fill_with(tensor, [&](int64_t i) {
    return mean + random_normal(seed, static_cast<uint64_t>(i)) * (name == "weight" ? 0.3 : 1);
  });
}

namespace {

constexpr Case kSmoke[] = {
    {.extents = {3, 64}},
    {.extents = {3, 67, 0, kHasResidual}},
    {.extents = {5, 24, 0, kHasResidual | kHasScale}, .padding = 8},
    {.extents = {4, 11, 1, kHasScale}},
};
constexpr Case kVerify[] = {
    {.extents = {0, 8}},
    {.extents = {2, 1}},
    {.extents = {2, 2}},
    {.extents = {7, 8, 0, kHasResidual}},
    {.extents = {3, 1032, 0, kHasResidual}},
    {.extents = {2, 4096}},
    {.extents = {2, 5000, 0, kHasResidual}},
    {.extents = {1, 8192, 0, kHasScale}},
    {.extents = {2, 20000, 0, kHasScale}},
    {.extents = {3, 40}, .offset = 1},
};
constexpr Case kBench[] = {
    {.extents = {16384, 4096, 0, kHasResidual}},
    {.extents = {16384, 8192, 0, kHasResidual}},
    {.extents = {16384, 4096, 0, kHasScale}},
    {.extents = {65536, 1024, 0, kHasResidual}},
};

}  // namespace

template <bool kCentred>
Cases FusedNorm<kCentred>::cases() {
  return {kSmoke, kVerify, kBench};
}

template struct FusedNorm<true>;
template struct FusedNorm<false>;

}  // namespace ws::fused
