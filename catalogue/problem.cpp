#include "catalogue/problem.hpp"

#include "catalogue/catalogue.hpp"

namespace ws {
namespace {

constexpr std::array<std::string_view, kAllDTypes.size()> kDTypeNames = {
    "f32", "f16", "bf16", "e4m3", "e5m2", "i32", "i64", "bool"};

std::string list(std::span<const int64_t> values) {
  std::string text = "[";
  for (const int64_t value : values) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(value);
  }
  return text + "]";
}

std::span<const int64_t> first(const std::array<int64_t, kMaxRank>& values, int count) {
  return {values.data(), static_cast<size_t>(count)};
}

// Shape, and strides where they are not the plain ones.
std::string layout(const Tensor& tensor) {
  std::string text = list(first(tensor.shape, tensor.rank));
  if (!tensor.contiguous()) text += " strides " + list(first(tensor.strides, tensor.rank));
  return text;
}

}  // namespace

std::string_view to_string(DType dtype) { return kDTypeNames[static_cast<size_t>(dtype)]; }

DType dtype_from(std::string_view name) {
  for (size_t i = 0; i < kDTypeNames.size(); ++i) {
    if (kDTypeNames[i] == name) return static_cast<DType>(i);
  }
  throw InvalidArgument(
      concatenate("unknown dtype '", name, "': f32, f16, bf16, e4m3, e5m2, i32, i64 or bool"));
}

int64_t Tensor::elements() const {
  int64_t count = 1;
  for (int d = 0; d < rank; ++d) count *= shape[static_cast<size_t>(d)];
  return count;
}

bool Tensor::contiguous() const {
  int64_t expected = 1;
  for (int d = rank - 1; d >= 0; --d) {
    const auto i = static_cast<size_t>(d);
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

std::string Tensor::describe() const { return std::string(to_string(dtype)) + " " + layout(*this); }

Tensor Tensor::dense(DType dtype, std::span<const int64_t> shape) {
  require(shape.size() <= static_cast<size_t>(kMaxRank), "a tensor of rank ", shape.size(),
          "; at most ", kMaxRank, " dimensions");
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.rank = static_cast<int>(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] < 0) [[unlikely]] {
      throw InvalidArgument(
          concatenate("a tensor of shape ", list(shape), ": extents cannot be negative"));
    }
    tensor.shape[i] = shape[i];
    tensor.strides[i] = stride;
    stride *= shape[i];
  }
  return tensor;
}

std::span<const Tensor> Problem::inputs() const {
  return {tensors.data(), static_cast<size_t>(input_count())};
}

std::span<const Tensor> Problem::outputs() const {
  const int inputs = input_count();
  return {tensors.data() + inputs, static_cast<size_t>(tensor_count - inputs)};
}

int Problem::input_count() const {
  int count = 0;
  while (count < tensor_count && !operation->parameters[static_cast<size_t>(count)].output) ++count;
  return count;
}

std::string Problem::describe() const {
  std::string text(operation->name);
  const std::span<const Tensor> in = inputs();
  for (size_t i = 0; i < in.size(); ++i) {
    if (i > 0) text += " x";
    if (i == 0 || in[i].dtype != in[0].dtype) text.append(" ").append(to_string(in[i].dtype));
    text.append(" ").append(layout(in[i]));
  }
  for (size_t i = 0; i < operation->attributes.size(); ++i) {
    const Attribute& a = operation->attributes[i];
    if (attributes[i] == a.standard) continue;
    text.append(" ").append(a.name).append("=").append(describe_value(a, attributes[i]));
  }
  return text;
}

double element(const Tensor& tensor, int64_t index) {
  int64_t offset = index;
  if (!tensor.contiguous()) {
    offset = 0;
    for (int d = tensor.rank - 1; d >= 0; --d) {
      const auto i = static_cast<size_t>(d);
      offset += index % tensor.shape[i] * tensor.strides[i];
      index /= tensor.shape[i];
    }
  }
  switch (tensor.dtype) {
    case DType::kF32: return tensor.as<const float>()[offset];
    case DType::kF16: return to_float(tensor.as<const half>()[offset]);
    case DType::kBf16: return to_float(tensor.as<const bf16>()[offset]);
    case DType::kE4m3: return to_float(tensor.as<const e4m3>()[offset]);
    case DType::kE5m2: return to_float(tensor.as<const e5m2>()[offset]);
    case DType::kI32: return tensor.as<const int32_t>()[offset];
    case DType::kI64: return static_cast<double>(tensor.as<const int64_t>()[offset]);
    case DType::kBool: return tensor.as<const uint8_t>()[offset] != 0 ? 1 : 0;
  }
  return 0;
}

}  // namespace ws
