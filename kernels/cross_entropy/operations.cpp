// From problems to calls: what fits together, what comes out.
#include "kernels/cross_entropy/operations.hpp"

#include <cmath>

namespace ws::cross_entropy {
namespace {

[[noreturn]] void refuse(const Problem& problem, std::string_view name, const Tensor& tensor,
                         std::string_view wanted) {
  throw InvalidArgument(concatenate(problem.operation->name, ": '", name, "' is ", tensor, ", not ",
                                    wanted, "; 'logits' is ", problem["logits"]));
}

// One number a row.
Tensor number_of(const Tensor& logits, DType dtype) {
  return Tensor::dense(dtype, logits.extents().first(static_cast<size_t>(logits.rank - 1)));
}
void check_number(const Problem& problem, std::string_view name, const Tensor& wanted) {
  const Tensor& tensor = problem.find(name);
  const bool may_be_narrow = name == "target" && tensor.dtype == DType::kI32;
  if (tensor.exists() && ((tensor.dtype != wanted.dtype && !may_be_narrow) ||
                          !tensor.same_shape(wanted))) [[unlikely]] {
    refuse(problem, name, tensor,
           name == "target" ? "i64 or i32 with one element a row" : "f32 with one element a row");
  }
}

// Rows of one element, as RowLayout wants them.
Tensor as_rows(const Tensor& number) {
  Tensor rows = number;
  if (!rows.exists()) return rows;
  const auto last = static_cast<size_t>(rows.rank++);
  rows.shape[last] = 1;
  rows.strides[last] = 1;
  return rows;
}

template <class OperationCall>
OperationCall call_of(const Problem& problem) {
  OperationCall call{};
  const Tensor& logits = problem["logits"];
  const Tensor& dlogits = OperationCall::kHasLoss ? logits : problem.find("dlogits");
  const Tensor& target = problem["target"];
  const Tensor& weight = problem["weight"];
  call.dtype = logits.dtype;
  if constexpr (OperationCall::kHasGradient) {
    call.rows = row_layout(logits, dlogits);
  } else {
    const Tensor* const only[] = {&logits};
    call.rows = row_layout<kRowOperands>(std::span(only));
  }
  call.numbers = row_layout(as_rows(target), as_rows(problem.find("loss")), as_rows(problem["lse"]),
                            as_rows(problem.find("dloss")));
  call.wide_targets = target.dtype == DType::kI64;
  call.has_weight = weight.exists();
  call.weight = call.has_weight ? weight.as<const float>() : nullptr;
  call.weight_stride = call.has_weight ? weight.stride(0) : 0;
  // The whole row is read before any of it is written, but weights are read all the time.
  if (OperationCall::kHasGradient && call.weight != nullptr && dlogits.data == weight.data) {
    throw InvalidArgument(
        concatenate(problem.operation->name, ": 'dlogits' may not be the memory of 'weight'"));
  }
  call.ignore_index = problem.integer("ignore_index");
  call.label_smoothing = static_cast<float>(problem.number("label_smoothing"));
  call.z_loss = static_cast<float>(problem.number("z_loss"));
  call.scale = 1;
  if constexpr (OperationCall::kHasGradient && OperationCall::kHasLoss) {
    call.scale = static_cast<float>(problem.number("scale"));
  }
  return call;
}

}  // namespace

void Common::infer(Problem& problem) {
  const Tensor& logits = problem["logits"];
  if (!kDTypes.has(logits.dtype) || logits.rank < 1) [[unlikely]] {
    refuse(problem, "logits", logits, "of f32, f16 or bf16 with at least one dimension");
  }
  const Tensor number = number_of(logits, DType::kF32);
  check_number(problem, "target", number_of(logits, DType::kI64));
  check_number(problem, "dloss", number);
  const Tensor& weight = problem["weight"];
  if (weight.exists() && (weight.dtype != DType::kF32 || weight.rank != 1 ||
                          weight.extent(0) != logits.extent(logits.rank - 1))) [[unlikely]] {
    refuse(problem, "weight", weight, "f32 with one element a class");
  }
  const double smoothing = problem.number("label_smoothing");
  if (!(smoothing >= 0 && smoothing <= 1)) [[unlikely]] {
    throw InvalidArgument(
        concatenate(problem.operation->name, ": label_smoothing is from 0 to 1, not ", smoothing));
  }
  if (!std::isfinite(problem.number("z_loss"))) [[unlikely]] {
    throw InvalidArgument(concatenate(problem.operation->name, ": takes a finite z_loss, not ",
                                      problem.number("z_loss")));
  }
  if (problem.operation->index_of("dlogits") >= 0) {
    check_number(problem, "lse", number);
    problem["dlogits"] = Tensor::like(logits);
  } else {
    problem["loss"] = number;
    problem["lse"] = number;
  }
}

ForwardCall CrossEntropyForward::call(const Problem& problem) {
  return call_of<ForwardCall>(problem);
}
BackwardCall CrossEntropyBackward::call(const Problem& problem) {
  return call_of<BackwardCall>(problem);
}
FusedCall CrossEntropyFused::call(const Problem& problem) { return call_of<FusedCall>(problem); }

}  // namespace ws::cross_entropy
