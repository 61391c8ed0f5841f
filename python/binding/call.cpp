#include "python/binding/call.hpp"

#include <algorithm>
#include <limits>

#include "catalogue/catalogue_json.hpp"
#include "warpsmith/device_error.hpp"

namespace ws::binding {
namespace {

constexpr int kRowBits = 16;
constexpr int kDTypeBits = 32;

int number_of(const Family& family) {
  const std::span<const Family* const> all = families();
  return static_cast<int>(std::ranges::find(all, &family) - all.begin());
}

int row_of(const Family& family, const Rung& rung) {
  return static_cast<int>(std::ranges::find(family.rungs, &rung) - family.rungs.begin());
}

std::string describe(DLDataType dtype) {
  constexpr std::array<std::string_view, 7> kCodes = {"int",    "uint",    "float", "handle",
                                                      "bfloat", "complex", "bool"};
  const std::string_view code = dtype.code < kCodes.size() ? kCodes[dtype.code] : "float8-like ";
  return concatenate(code, static_cast<int>(dtype.bits),
                     dtype.lanes == 1 ? "" : concatenate("x", dtype.lanes));
}

std::string describe(DLDevice device) {
  switch (device.device_type) {
    case kDLCPU: return "the CPU";
    case kDLCUDA: return concatenate("CUDA device ", device.device_id);
    case kDLCUDAHost: return "pinned host memory";
    case kDLCUDAManaged: return "managed memory";
    default: return concatenate("a device of DLPack type ", static_cast<int>(device.device_type));
  }
}

bool same(DLDevice a, DLDevice b) {
  if constexpr (runtime::kEmulated) return is_ours(a) && is_ours(b);
  return a.device_type == b.device_type && a.device_id == b.device_id;
}

std::string_view name_of(const Operation& operation, size_t parameter) {
  return parameter < operation.parameters.size() ? operation.parameters[parameter].name : "?";
}

// The device of all tensors; throws where it is not this library's or they differ.
DLDevice common_device(const Operation& operation, std::span<const DLTensor* const> tensors) {
  const auto first = std::ranges::find_if(tensors, [](const DLTensor* t) { return t != nullptr; });
  if (first == tensors.end()) [[unlikely]] {
    throw InvalidArgument(concatenate(operation.name, ": no tensors"));
  }
  const DLDevice device = (*first)->device;
  const std::string_view first_name =
      name_of(operation, static_cast<size_t>(first - tensors.begin()));
  if (!is_ours(device)) [[unlikely]] {
    throw InvalidArgument(concatenate(
        operation.name, ": '", first_name, "' is on ", describe(device),
        runtime::kEmulated
            ? "; this is the emulated build, which takes CPU arrays: a CUDA build needs nvcc"
            : "; this is the CUDA build, which takes arrays on NVIDIA GPUs"));
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i] == nullptr || same(tensors[i]->device, device)) [[likely]]
      continue;
    throw InvalidArgument(concatenate(operation.name, ": '", first_name, "' is on ",
                                      describe(device), ", but '", name_of(operation, i),
                                      "' is on ", describe(tensors[i]->device)));
  }
  return device;
}

// Where the emulator runs there is one device, whatever number the caller's memory has.
int device_number(DLDevice device) { return runtime::kEmulated ? 0 : device.device_id; }

Problem problem_of(const Operation& operation, std::span<const DLTensor* const> tensors,
                   std::span<const Value> attributes) {
  if (tensors.size() > operation.parameters.size()) [[unlikely]] {
    throw InvalidArgument(concatenate(operation.name, " takes at most ",
                                      operation.parameters.size(), " tensors, got ",
                                      tensors.size()));
  }
  if (attributes.size() > operation.attributes.size()) [[unlikely]] {
    throw InvalidArgument(concatenate(operation.name, " has ", operation.attributes.size(),
                                      " attributes, got ", attributes.size()));
  }
  Problem problem;
  problem.operation = &operation;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i] == nullptr) continue;
    try {
      problem.tensors[i] = to_tensor(*tensors[i]);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(
          concatenate(operation.name, ": '", name_of(operation, i), "': ", error.message()));
    }
  }
  std::ranges::copy(attributes, problem.attributes.begin());
  return problem;
}

}  // namespace

ws_rung pack(int family, int row, DTypes dtypes) {
  return row | static_cast<ws_rung>(dtypes.bits) << kRowBits |
         static_cast<ws_rung>(family) << (kRowBits + kDTypeBits);
}

Tensor to_tensor(const DLTensor& from) {
  Tensor to;
  const auto known = std::ranges::find_if(kDTypeFacts, [&](const DTypeFacts& facts) {
    return facts.dlpack_code == from.dtype.code && 8 * facts.bytes == from.dtype.bits &&
           from.dtype.lanes == 1;
  });
  if (known == kDTypeFacts.end()) [[unlikely]] {
    throw InvalidArgument(
        concatenate("dtype ", describe(from.dtype), " is none of ", to_string(kEveryDType)));
  }
  if (from.ndim < 0 || from.ndim > kMaxRank) [[unlikely]] {
    throw InvalidArgument(
        concatenate("a tensor of ", from.ndim, " dimensions; at most ", kMaxRank));
  }
  if (from.ndim > 0 && from.shape == nullptr) [[unlikely]] {
    throw InvalidArgument(concatenate("a tensor of ", from.ndim, " dimensions without a shape"));
  }
  if (from.strides == nullptr) {
    to = Tensor::dense(known->dtype, {from.shape, static_cast<size_t>(from.ndim)});
  } else {
    to.dtype = known->dtype;
    to.rank = from.ndim;
    for (int d = 0; d < from.ndim; ++d) {
      to.shape[static_cast<size_t>(d)] = from.shape[d];
      to.strides[static_cast<size_t>(d)] = from.strides[d];
    }
  }
  to.data = from.data == nullptr ? nullptr : static_cast<char*>(from.data) + from.byte_offset;
  if (reinterpret_cast<uintptr_t>(to.data) % known->bytes != 0) [[unlikely]] {
    throw InvalidArgument(concatenate("address ", to.data, " is no multiple of the ", known->bytes,
                                      " bytes of ", known->name));
  }
  return to;
}

DLDataType to_dlpack(DType dtype) {
  const DTypeFacts& facts = facts_of(dtype);
  return {facts.dlpack_code, static_cast<uint8_t>(8 * facts.bytes), 1};
}

Value to_value(const ws_value& value) {
  switch (value.kind) {
    case WS_UNSET: return {};
    case WS_ABSENT: return Value::absent();
    case WS_BOOL:
      require(value.integer == 0 || value.integer == 1, "a bool of ", value.integer);
      return value.integer == 1;
    case WS_INT: return value.integer;
    case WS_FLOAT: return value.number;
    case WS_CHOICE:
      require(value.integer >= 0 && value.integer <= std::numeric_limits<int>::max(),
              "a choice with the index ", value.integer);
      return Value::choice(static_cast<int>(value.integer));
    case WS_DIMS: {
      Dims dims;
      require(value.count >= 0 && static_cast<size_t>(value.count) <= dims.at.size(), value.count,
              " dimensions; at most ", dims.at.size());
      for (int32_t i = 0; i < value.count; ++i) {
        const int64_t dim = value.dims[i];
        require(
            dim >= std::numeric_limits<int8_t>::min() && dim <= std::numeric_limits<int8_t>::max(),
            "dimension ", dim, " of an array of at most ", kMaxRank);
        dims.at[static_cast<size_t>(dims.count++)] = static_cast<int>(dim);
      }
      return dims;
    }
    default: throw InvalidArgument(concatenate("a value of kind ", value.kind));
  }
}

ws_value to_c(const Value& value) {
  ws_value result{};
  result.kind = static_cast<int32_t>(value.kind());
  static_assert(static_cast<int>(Value::Kind::kDims) == WS_DIMS);
  switch (value.kind()) {
    case Value::Kind::kFloat: result.number = value.as_float(); break;
    case Value::Kind::kDims:
      for (const int dim : value.as_dims()) result.dims[result.count++] = dim;
      break;
    default: result.integer = value.as_int(); break;
  }
  return result;
}

bool is_ours(DLDevice device) {
  if constexpr (runtime::kEmulated) {
    return device.device_type == kDLCPU || device.device_type == kDLCUDAHost;
  }
  return device.device_type == kDLCUDA || device.device_type == kDLCUDAManaged;
}

Call::Call(const Operation& operation, std::span<const DLTensor* const> tensors,
           std::span<const Value> attributes)
    : device_(common_device(operation, tensors)),
      scope_(device_number(device_)),
      call_(problem_of(operation, tensors, attributes)) {}

const Rung& Call::rung_at(ws_rung code) const {
  const Family& family = family_of(*problem().operation);
  const auto row = static_cast<size_t>(code & ((1 << kRowBits) - 1));
  const auto number = static_cast<size_t>(code >> (kRowBits + kDTypeBits));
  const std::span<const Family* const> all = families();
  require(code >= 0 && number < all.size(), "no rung has the number ", code);
  require(all[number] == &family, "rung number ", code, " is one of '", all[number]->name,
          "', and ", problem().operation->name, " is of '", family.name, "'");
  require(row < family.rungs.size(), "family '", family.name, "' has no rung number ", code);
  return *family.rungs[row];
}

ws_rung Call::code_of(const Rung& rung) const {
  const Family& family = family_of(*problem().operation);
  return pack(number_of(family), row_of(family, rung), {});
}

Reason Call::reason(ws_rung code) const {
  const Rung& rung = rung_at(code);
  DTypes fixed;
  fixed.bits = static_cast<uint32_t>(code >> kRowBits);  // without the family above them
  if (!fixed.empty() && !fixed.has(call_.dtype())) {
    return concatenate("the name fixes another dtype than ", ws::to_string(call_.dtype()));
  }
  return why_not(rung, call_, runtime::capability());
}

const Rung& Call::choose(ws_rung code) const {
  if (code == WS_BEST) return best(call_, runtime::capability());
  const Reason why = reason(code);
  const Rung& rung = rung_at(code);
  if (!why.empty()) {
    throw InvalidArgument(concatenate(problem().operation->name, "/", rung.name, " does not take ",
                                      problem().describe(), ": ", why));
  }
  return rung;
}

OutgoingCall::OutgoingCall(const Problem& problem, Stream stream) {
  const Operation& operation = *problem.operation;
  const DLDevice device = {runtime::kEmulated ? kDLCPU : kDLCUDA, runtime::current_device()};
  for (size_t i = 0; i < operation.parameters.size(); ++i) {
    const Tensor& from = problem.tensors[i];
    if (!from.exists()) continue;
    tensors_[i] = {from.data,
                   device,
                   from.rank,
                   to_dlpack(from.dtype),
                   const_cast<int64_t*>(from.shape.data()),  // NOLINT: DLPack has no const
                   const_cast<int64_t*>(from.strides.data()),
                   0};
    pointers_[i] = &tensors_[i];
  }
  for (size_t i = 0; i < operation.attributes.size(); ++i) {
    attributes_[i] = to_c(problem.attributes[i]);
  }
  call.operation = id_of(operation);
  call.rung = WS_BEST;
  call.tensor_count = static_cast<int32_t>(operation.parameters.size());
  call.tensors = pointers_.data();
  call.attribute_count = static_cast<int32_t>(operation.attributes.size());
  call.attributes = attributes_.data();
  call.stream = stream;
}

ws_address address_of(std::string_view name) {
  const Address found = resolve(name);
  ws_address address{-1, -1, WS_BEST};
  address.family = number_of(*found.family);
  if (found.operation != nullptr) address.operation = id_of(*found.operation);
  if (found.rung != nullptr) {
    require(found.rung->peer == nullptr, "'", name, "' is ", found.rung->name,
            ", a library that rungs are compared with, and no rung");
    address.rung = pack(address.family, row_of(*found.family, *found.rung), found.dtypes);
  }
  return address;
}

namespace {

void require_device(int device) {
  std::string why;
  const int count = runtime::device_count(&why);
  require(device >= 0 && device < count, "device ", device, ": there are ", count,
          why.empty() ? "" : " (", why, why.empty() ? "" : ")");
}

}  // namespace

void synchronize(int device, void* stream) {
  require_device(device);
  const runtime::DeviceScope scope(device);
  runtime::synchronize(static_cast<Stream>(stream));
}

void check(int device) {
  require_device(device);
  const runtime::DeviceScope scope(device);
  runtime::synchronize_device();
  raise_device_error();
}

}  // namespace ws::binding
