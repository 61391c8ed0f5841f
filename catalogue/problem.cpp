#include "catalogue/problem.hpp"

#include <algorithm>
#include <ostream>
#include <utility>

#include "catalogue/catalogue.hpp"

namespace ws {
namespace {

std::string list(std::span<const int64_t> values) {
  std::string text = "[";
  for (const int64_t value : values) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(value);
  }
  return text + "]";
}

// Shape, and strides where they are not the plain ones.
std::string layout(const Tensor& tensor) {
  std::string text = list(tensor.extents());
  if (!tensor.contiguous()) {
    text += " strides " + list({tensor.strides.data(), static_cast<size_t>(tensor.rank)});
  }
  return text;
}

}  // namespace

// ---- dtypes -----------------------------------------------------------------------------------

std::string to_string(DTypes dtypes) {
  std::string names;
  for (const DTypeFacts& facts : kDTypeFacts) {
    if (dtypes.has(facts.dtype)) names.append(names.empty() ? "" : ", ").append(facts.name);
  }
  return names;
}

DType dtype_from(std::string_view name) {
  const auto at = std::ranges::find(kDTypeFacts, name, &DTypeFacts::name);
  if (at != kDTypeFacts.end()) return at->dtype;
  throw InvalidArgument(
      concatenate("unknown dtype '", name, "'; there are ", to_string(kEveryDType)));
}

void detail::throw_no_code(DType dtype) {
  throw Error(concatenate("no code for ", to_string(dtype)));
}

// ---- Tensors ----------------------------------------------------------------------------------

int64_t Tensor::elements() const {
  if (!exists()) return 0;
  int64_t count = 1;
  for (const int64_t extent : extents()) count *= extent;
  return count;
}

bool Tensor::contiguous() const {
  int64_t expected = 1;
  for (int d = rank - 1; d >= 0; --d) {
    if (extent(d) == 0) return true;
    if (extent(d) != 1 && stride(d) != expected) return false;
    expected *= extent(d);
  }
  return true;
}

bool Tensor::same_shape(const Tensor& other) const {
  return rank == other.rank &&
         std::equal(shape.begin(), shape.begin() + std::max(rank, 0), other.shape.begin());
}

std::string Tensor::describe() const {
  return exists() ? concatenate(to_string(dtype), " ", layout(*this)) : "none";
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << tensor.describe();
}

Tensor Tensor::dense(DType dtype, std::span<const int64_t> shape) {
  if (shape.size() > static_cast<size_t>(kMaxRank)) [[unlikely]] {
    throw InvalidArgument(
        concatenate("a tensor of rank ", shape.size(), "; at most ", kMaxRank, " dimensions"));
  }
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.rank = static_cast<int>(shape.size());
  int64_t stride = 1;
  bool too_large = false;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] < 0) [[unlikely]] {
      throw InvalidArgument(
          concatenate("a tensor of shape ", list(shape), ": extents cannot be negative"));
    }
    tensor.shape[i] = shape[i];
    tensor.strides[i] = stride;
    // As if every extent were at least 1: strides of empty tensors are numbers too.
    too_large =
        too_large || __builtin_mul_overflow(stride, std::max<int64_t>(shape[i], 1), &stride);
  }
  if (too_large || stride > kMostBytes / static_cast<int64_t>(size_of(dtype))) [[unlikely]] {
    throw InvalidArgument(concatenate("a tensor ", to_string(dtype), " of shape ", list(shape),
                                      " is larger than any memory: at most ", kMostBytes,
                                      " bytes"));
  }
  return tensor;
}

int64_t offset_of(const Tensor& tensor, int64_t index) {
  int64_t offset = 0;
  for (int d = tensor.rank - 1; d >= 0; --d) {
    offset += index % tensor.extent(d) * tensor.stride(d);
    index /= tensor.extent(d);
  }
  return offset;
}

double element(const Tensor& tensor, int64_t index) {
  const int64_t offset = tensor.contiguous() ? index : offset_of(tensor, index);
  return with_type<kEveryDType>(tensor.dtype, [&]<class T>() -> double {
    if constexpr (std::is_same_v<T, bool>) {
      return tensor.as<const uint8_t>()[offset] != 0 ? 1 : 0;
    } else {
      return static_cast<double>(widened(tensor.as<const T>()[offset]));
    }
  });
}

Tensor broadcast(const Tensor& tensor, const Tensor& to) {
  const int missing = to.rank - tensor.rank;
  if (missing < 0) return {};
  Tensor result = tensor;
  result.rank = to.rank;
  result.shape = to.shape;
  result.strides = {};
  for (int d = 0; d < tensor.rank; ++d) {
    const auto at = static_cast<size_t>(d + missing);
    if (tensor.extent(d) == to.shape[at]) {
      result.strides[at] = tensor.stride(d);
    } else if (tensor.extent(d) != 1) {
      return {};
    }
  }
  return result;
}

Tensor without_repeats(Tensor tensor) {
  for (size_t d = 0; static_cast<int>(d) < tensor.rank; ++d) {
    if (tensor.strides[d] == 0) tensor.shape[d] = std::min<int64_t>(tensor.shape[d], 1);
  }
  return tensor;
}

size_t footprint(const Tensor& tensor) {
  int64_t last = 0;
  if (!tensor.exists()) return 0;
  for (int d = 0; d < tensor.rank; ++d) {
    if (tensor.extent(d) == 0) return 0;
    last += (tensor.extent(d) - 1) * tensor.stride(d);
  }
  return static_cast<size_t>(last + 1) * size_of(tensor.dtype);
}

// ---- Problems ---------------------------------------------------------------------------------

const Tensor& Problem::operator[](std::string_view parameter) const {
  const int index = operation->index_of(parameter);
  if (index < 0) [[unlikely]] {
    throw Error(concatenate(operation->name, " has no tensor '", parameter, "'"));
  }
  return tensor(index);
}

const Tensor& Problem::find(std::string_view parameter) const {
  static const Tensor kNone;
  const int index = operation->index_of(parameter);
  return index < 0 ? kNone : tensor(index);
}

Tensor& Problem::operator[](std::string_view parameter) {
  return const_cast<Tensor&>(std::as_const(*this)[parameter]);
}

const Value& Problem::attribute(std::string_view name) const {
  const std::span<const Attribute> all = operation->attributes;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].name == name) return attributes[i];
  }
  throw Error(concatenate(operation->name, " has no attribute '", name, "'"));
}

std::string Problem::describe() const {
  std::string text(operation->name);
  const Tensor* before = nullptr;
  for (size_t i = 0; i < operation->parameters.size(); ++i) {
    const Tensor& tensor = tensors[i];
    if (!operation->parameters[i].is_read() || !tensor.exists()) continue;
    if (before != nullptr) text += " x";
    if (operation->parameters[i].optional) {
      text.append(" ").append(operation->parameters[i].name).append("=");
    } else {
      text += " ";
    }
    if (before == nullptr || tensor.dtype != before->dtype) {
      text.append(to_string(tensor.dtype)).append(" ");
    }
    text += layout(tensor);
    if (const size_t holder = holder_of(*this, i); holder != i) {
      text.append(" in ").append(operation->parameters[holder].name);
    }
    before = &tensor;
  }
  for (size_t i = 0; i < operation->attributes.size(); ++i) {
    const Attribute& a = operation->attributes[i];
    if (attributes[i].is_unset() || attributes[i] == a.standard) continue;
    text.append(" ").append(a.name).append("=").append(describe_value(a, attributes[i]));
  }
  return text;
}

void share_memory(Problem& problem, int outer, int inner) {
  Tensor& whole = problem.tensor(outer);
  Tensor& part = problem.tensor(inner);
  bool fits = whole.rank == part.rank && whole.dtype == part.dtype;
  for (int d = 0; fits && d < part.rank; ++d) fits = part.extent(d) <= whole.extent(d);
  require(fits, problem.operation->name, ": ", part, " does not lie in ", whole);
  part.strides = whole.strides;
  // As aligned as any, another for each; no address that memory is at.
  const auto address = (uintptr_t{1} << 63) + (static_cast<uintptr_t>(outer) << 48);
  part.data = whole.data = reinterpret_cast<void*>(address);
}

size_t holder_of(const Problem& problem, size_t i) {
  const std::span<const Parameter> parameters = problem.operation->parameters;
  const Tensor& tensor = problem.tensors[i];
  if (tensor.data == nullptr || !parameters[i].is_read()) return i;
  for (size_t t = 0; t < i; ++t) {
    const Tensor& other = problem.tensors[t];
    if (other.data != tensor.data || !parameters[t].is_read()) continue;
    if (footprint(other) >= footprint(tensor)) return t;
  }
  return i;
}

double least_traffic(const Problem& problem) {
  double bytes = 0;
  for (size_t i = 0; i < problem.operation->parameters.size(); ++i) {
    if (holder_of(problem, i) != i) continue;
    const Tensor& tensor = problem.tensors[i];
    bytes += static_cast<double>(without_repeats(tensor).elements()) *
             static_cast<double>(size_of(tensor.dtype));
  }
  return bytes;
}

}  // namespace ws
