// From problems to calls: what fits together, what comes out.
#include "kernels/norm/operations.hpp"

namespace ws::norm {
namespace {

[[noreturn]] void refuse(const Problem& problem, std::string_view name, const Tensor& tensor,
                         std::string_view wanted) {
  throw InvalidArgument(concatenate(problem.operation->name, ": '", name, "' is ", tensor, ", not ",
                                    wanted, "; '", problem.operation->parameters[0].name, "' is ",
                                    problem.tensor(0)));
}

// The first tensor: rows of floats.
void check_rows(const Problem& problem) {
  const Tensor& x = problem.tensor(0);
  if (!kFloats.has(x.dtype) || x.rank < 1) [[unlikely]] {
    refuse(problem, problem.operation->parameters[0].name, x,
           "of f32, f16 or bf16 with at least one dimension");
  }
}
void check_like_first(const Problem& problem, std::string_view name) {
  const Tensor& tensor = problem[name];
  const Tensor& x = problem.tensor(0);
  if (tensor.exists() && (tensor.dtype != x.dtype || !tensor.same_shape(x))) [[unlikely]] {
    refuse(problem, name, tensor, "of the shape and dtype of the first tensor");
  }
}
void check_columns(const Problem& problem, std::string_view name) {
  const Tensor& tensor = problem[name];
  const Tensor& x = problem.tensor(0);
  if (tensor.exists() && (tensor.rank != 1 || tensor.extent(0) != x.extent(x.rank - 1) ||
                          (tensor.dtype != x.dtype && tensor.dtype != DType::kF32))) [[unlikely]] {
    refuse(problem, name, tensor, "one element a column, of the dtype of the first tensor or f32");
  }
}

// One number a row, f32.
Tensor statistic_of(const Tensor& x) {
  return Tensor::dense(DType::kF32, x.extents().first(static_cast<size_t>(x.rank - 1)));
}
void check_statistic(const Problem& problem, std::string_view name) {
  const Tensor& tensor = problem[name];
  if (tensor.exists() && (tensor.dtype != DType::kF32 ||
                          !tensor.same_shape(statistic_of(problem.tensor(0))))) [[unlikely]] {
    refuse(problem, name, tensor, "f32 with one element a row");
  }
}

// Rows of one element, as RowLayout wants them.
Tensor as_rows(const Tensor& statistic) {
  Tensor rows = statistic;
  if (!rows.exists()) return rows;
  const auto last = static_cast<size_t>(rows.rank++);
  rows.shape[last] = 1;
  rows.strides[last] = 1;
  return rows;
}
// Of tensors that both exist or both do not, or of which only the second does.
RowLayout<kStatistics> statistics_layout(const Tensor& mean, const Tensor& rstd) {
  const Tensor second = as_rows(rstd);
  Tensor first = as_rows(mean);
  if (!first.exists()) {  // a layout is of a tensor that exists
    first = second;
    first.data = nullptr;
  }
  return row_layout(first, second);
}

}  // namespace

template <bool kCentred>
void Forward<kCentred>::infer(Problem& problem) {
  check_rows(problem);
  check_like_first(problem, "residual");
  check_columns(problem, "weight");
  const Tensor& x = problem["x"];
  if constexpr (kCentred) {
    check_columns(problem, "bias");
    const Tensor& weight = problem["weight"];
    const Tensor& bias = problem["bias"];
    if (weight.exists() && bias.exists() && weight.dtype != bias.dtype) [[unlikely]] {
      refuse(problem, "bias", bias, "of the dtype of 'weight'");
    }
  }
  const bool prenorm = problem.flag("prenorm");
  if (prenorm && !problem["residual"].exists()) [[unlikely]] {
    throw InvalidArgument(concatenate(problem.operation->name,
                                      ": prenorm=true gives x + residual: needs 'residual'"));
  }
  problem["y"] = Tensor::like(x);
  problem["sum"] = prenorm ? Tensor::like(x) : Tensor{};
  const bool stats = problem.flag("stats");
  if constexpr (kCentred) problem["mean"] = stats ? statistic_of(x) : Tensor{};
  problem["rstd"] = stats ? statistic_of(x) : Tensor{};
}

template <bool kCentred>
ForwardCall<kCentred> Forward<kCentred>::call(const Problem& problem) {
  Call call{};
  const Tensor& x = problem["x"];
  call.dtype = x.dtype;
  call.rows = row_layout(x, problem["y"], problem["residual"], problem["sum"]);
  const Tensor& rstd = problem["rstd"];
  call.wants_statistics = rstd.exists();
  if (call.wants_statistics) call.statistics = statistics_layout(problem.find("mean"), rstd);
  const Tensor& weight = problem["weight"];
  call.weight = Columns(weight);
  call.parameter_dtype = weight.exists() ? weight.dtype : x.dtype;
  if constexpr (kCentred) {
    const Tensor& bias = problem["bias"];
    call.bias = Columns(bias);
    if (bias.exists()) call.parameter_dtype = bias.dtype;
  }
  call.eps = static_cast<float>(problem.number("eps"));
  call.allows_f16_sums = problem.flag("acc_f16");
  // Rows are done in any order: their statistics may not fall on what later rows still read.
  for (const void* written : {call.statistics.data[kMean], call.statistics.data[kRstd]}) {
    if (written != nullptr && (written == call.weight.data || written == call.bias.data)) {
      throw InvalidArgument(concatenate(problem.operation->name,
                                        ": statistics may not be the memory of weight or bias"));
    }
  }
  return call;
}

template <bool kCentred>
void Backward<kCentred>::infer(Problem& problem) {
  check_rows(problem);
  check_like_first(problem, "x");
  check_columns(problem, "weight");
  check_statistic(problem, "rstd");
  const Tensor& grad = problem["grad"];
  const Tensor& weight = problem["weight"];
  problem["dx"] = Tensor::like(grad);
  problem["dweight"] = weight.exists() ? Tensor::like(weight) : Tensor{};
  if constexpr (kCentred) {
    check_statistic(problem, "mean");
    if (problem["mean"].exists() != problem["rstd"].exists()) [[unlikely]] {
      throw InvalidArgument(concatenate(problem.operation->name,
                                        ": 'mean' and 'rstd' are both given, or neither is"));
    }
    problem["dbias"] = problem.flag("bias")
                           ? Tensor::dense(weight.exists() ? weight.dtype : grad.dtype,
                                           {grad.extent(grad.rank - 1)})
                           : Tensor{};
  }
}

template <bool kCentred>
BackwardCall<kCentred> Backward<kCentred>::call(const Problem& problem) {
  Call call{};
  const Tensor& grad = problem["grad"];
  call.dtype = grad.dtype;
  call.rows = row_layout(grad, problem["x"], problem["dx"]);
  const Tensor& rstd = problem["rstd"];
  call.has_statistics = rstd.exists();
  if (call.has_statistics) call.statistics = statistics_layout(problem.find("mean"), rstd);
  const Tensor& weight = problem["weight"];
  call.weight = Columns(weight);
  call.parameter_dtype = weight.exists() ? weight.dtype : grad.dtype;
  call.dweight = Columns(problem["dweight"]);
  if constexpr (kCentred) call.dbias = Columns(problem["dbias"]);
  call.eps = static_cast<float>(problem.number("eps"));
  return call;
}

template struct Forward<true>;
template struct Forward<false>;
template struct Backward<true>;
template struct Backward<false>;

}  // namespace ws::norm
