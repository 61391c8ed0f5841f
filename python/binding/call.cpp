#include "python/binding/call.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#ifndef WS_EMULATED
#include <cuda_runtime.h>
#endif

namespace ws::binding {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kRowBits = 16;

struct DTypePair {
  DType ours;
  DLDataType theirs;
};
constexpr std::array<DTypePair, kAllDTypes.size()> kDTypePairs = {{
    {DType::kF32, {kDLFloat, 32, 1}},
    {DType::kF16, {kDLFloat, 16, 1}},
    {DType::kBf16, {kDLBfloat, 16, 1}},
    {DType::kE4m3, {kDLFloat8_e4m3fn, 8, 1}},
    {DType::kE5m2, {kDLFloat8_e5m2, 8, 1}},
    {DType::kI32, {kDLInt, 32, 1}},
    {DType::kI64, {kDLInt, 64, 1}},
    {DType::kBool, {kDLBool, 8, 1}},
}};

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
#ifdef WS_EMULATED
  return is_ours(a) && is_ours(b);
#else
  return a.device_type == b.device_type && a.device_id == b.device_id;
#endif
}

Json names_of(DTypes dtypes) {
  Json names = Json::array();
  for (const DType dtype : kAllDTypes) {
    if (dtypes.has(dtype)) names.push_back(to_string(dtype));
  }
  return names;
}

std::string_view to_string(Attribute::Kind kind) {
  switch (kind) {
    case Attribute::Kind::kFloat: return "float";
    case Attribute::Kind::kInt: return "int";
    case Attribute::Kind::kBool: return "bool";
    case Attribute::Kind::kChoice: return "choice";
  }
  return "?";
}

Json default_of(const Attribute& attribute) {
  switch (attribute.kind) {
    case Attribute::Kind::kFloat: return attribute.standard;
    case Attribute::Kind::kInt: return static_cast<int64_t>(attribute.standard);
    case Attribute::Kind::kBool: return attribute.standard != 0;
    case Attribute::Kind::kChoice:
      return attribute.choices[static_cast<size_t>(attribute.standard)];
  }
  return nullptr;
}

// The input whose shape and dtype the only output has in most cases, or -1: a hint for callers that
// allocate it before the call is checked.
int like(const Operation& operation) {
  std::array<int, kMaxTensors> agree{};
  int total = 0;
  int inputs = 0;
  const DType dtype =
      *std::ranges::find_if(kAllDTypes, [&](DType d) { return operation.dtypes.has(d); });
  for (const std::span<const Case> cases : {operation.smoke, operation.verify}) {
    for (const Case& chosen : cases) {
      Problem problem = operation.make(operation, chosen, dtype);
      check(problem);
      inputs = problem.input_count();
      if (problem.tensor_count != inputs + 1) return -1;
      const Tensor& output = problem.tensor(inputs);
      ++total;
      for (int i = 0; i < inputs; ++i) {
        const Tensor& input = problem.tensor(i);
        const bool same =
            input.dtype == output.dtype && input.rank == output.rank && input.shape == output.shape;
        agree[static_cast<size_t>(i)] += same ? 1 : 0;
      }
    }
  }
  const auto most = std::ranges::max_element(agree.begin(), agree.begin() + inputs);
  return 2 * *most > total ? static_cast<int>(most - agree.begin()) : -1;
}

Json to_json(const Family& family, const Operation& operation) {
  Json parameters = Json::array();
  for (const Parameter& p : operation.parameters) {
    parameters.push_back({{"name", p.name}, {"output", p.output}, {"doc", p.doc}});
  }
  Json attributes = Json::array();
  for (const Attribute& a : operation.attributes) {
    Json choices = Json::array();
    for (const std::string_view choice : a.choices) choices.push_back(choice);
    attributes.push_back({{"name", a.name},
                          {"kind", to_string(a.kind)},
                          {"default", default_of(a)},
                          {"choices", choices},
                          {"doc", a.doc}});
  }
  Json extents = Json::array();
  for (const std::string_view name : operation.extent_names) extents.push_back(name);
  Json seeds = Json::array();
  for (const Rung& rung : family.rungs) {
    for (const std::string& name : seeds_of(rung, operation)) {
      const Address address = resolve(name);
      const DTypes dtypes = address.dtypes.empty() ? rung.dtypes : address.dtypes;
      seeds.push_back({{"name", name}, {"rung", rung.name}, {"dtypes", names_of(dtypes)}});
    }
  }
  return {{"id", id_of(operation)},
          {"name", operation.name},
          {"summary", operation.summary},
          {"source", operation.source},
          {"formula", operation.formula},
          {"torch", operation.torch},
          {"dtypes", names_of(operation.dtypes)},
          {"parameters", parameters},
          {"attributes", attributes},
          {"extent_names", extents},
          {"like", like(operation)},
          {"seeds", seeds}};
}

}  // namespace

const Operation& operation_at(int64_t id) {
  int64_t remaining = id;
  for (const Family* family : families()) {
    const auto count = static_cast<int64_t>(family->operations.size());
    if (remaining >= 0 && remaining < count)
      return family->operations[static_cast<size_t>(remaining)];
    remaining -= count;
  }
  throw InvalidArgument(concatenate("no operation has the id ", id));
}

int32_t id_of(const Operation& operation) {
  int32_t id = 0;
  for (const Family* family : families()) {
    for (const Operation& other : family->operations) {
      if (&other == &operation) return id;
      ++id;
    }
  }
  throw Error(concatenate("operation '", operation.name, "' is not in the catalogue"));
}

ws_rung pack(int row, DTypes dtypes) {
  ws_rung code = row;
  for (const DType dtype : kAllDTypes) {
    if (dtypes.has(dtype)) code |= ws_rung{1} << (kRowBits + static_cast<int>(dtype));
  }
  return code;
}

Tensor to_tensor(const DLTensor& from) {
  Tensor to;
  bool known = false;
  for (const DTypePair& pair : kDTypePairs) {
    if (pair.theirs.code == from.dtype.code && pair.theirs.bits == from.dtype.bits &&
        from.dtype.lanes == 1) {
      to.dtype = pair.ours;
      known = true;
      break;
    }
  }
  if (!known) [[unlikely]] {
    throw InvalidArgument(concatenate("dtype ", describe(from.dtype),
                                      " is none of f32, f16, bf16, e4m3, e5m2, i32, i64, bool"));
  }
  if (from.ndim < 0 || from.ndim > kMaxRank) [[unlikely]] {
    throw InvalidArgument(
        concatenate("a tensor of ", from.ndim, " dimensions; at most ", kMaxRank));
  }
  to.data = from.data == nullptr ? nullptr : static_cast<char*>(from.data) + from.byte_offset;
  to.rank = from.ndim;
  int64_t dense = 1;
  for (int d = from.ndim - 1; d >= 0; --d) {
    const auto i = static_cast<size_t>(d);
    to.shape[i] = from.shape[d];
    to.strides[i] = from.strides == nullptr ? dense : from.strides[d];
    dense *= from.shape[d];
  }
  return to;
}

DLDataType to_dlpack(DType dtype) { return kDTypePairs[static_cast<size_t>(dtype)].theirs; }

bool is_ours(DLDevice device) {
#ifdef WS_EMULATED
  return device.device_type == kDLCPU || device.device_type == kDLCUDAHost;
#else
  return device.device_type == kDLCUDA || device.device_type == kDLCUDAManaged;
#endif
}

#ifdef WS_EMULATED
DeviceGuard::DeviceGuard(DLDevice) {}
DeviceGuard::~DeviceGuard() = default;
void synchronize(int, void*) {}
#else
DeviceGuard::DeviceGuard(DLDevice device) {
  int current = 0;
  detail::check_cuda(cudaGetDevice(&current), "cudaGetDevice");
  if (current == device.device_id) return;
  detail::check_cuda(cudaSetDevice(device.device_id), "cudaSetDevice");
  previous_ = current;
}

DeviceGuard::~DeviceGuard() {
  if (previous_ >= 0) cudaSetDevice(previous_);
}

void synchronize(int device, void* stream) {
  const DeviceGuard guard({kDLCUDA, device});
  detail::check_cuda(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)),
                     "cudaStreamSynchronize");
}
#endif

namespace {

// The device of all tensors; throws where it is not this library's or they differ.
DLDevice common_device(const Operation& operation, std::span<const DLTensor* const> tensors) {
  require(!tensors.empty(), operation.name, ": no tensors");
  const DLDevice device = tensors[0]->device;
  if (!is_ours(device)) [[unlikely]] {
    throw InvalidArgument(concatenate(
        operation.name, ": '", operation.parameters[0].name, "' is on ", describe(device),
#ifdef WS_EMULATED
        "; this is the emulated build, which takes CPU arrays: a CUDA build needs nvcc"));
#else
        "; this is the CUDA build, which takes arrays on NVIDIA GPUs"));
#endif
  }
  for (size_t i = 1; i < tensors.size(); ++i) {
    if (same(tensors[i]->device, device)) [[likely]]
      continue;
    const std::string_view name =
        i < operation.parameters.size() ? operation.parameters[i].name : "?";
    throw InvalidArgument(concatenate(operation.name, ": '", operation.parameters[0].name,
                                      "' is on ", describe(device), ", but '", name, "' is on ",
                                      describe(tensors[i]->device)));
  }
  return device;
}

}  // namespace

Call::Call(const Operation& operation, std::span<const DLTensor* const> tensors,
           std::span<const double> attributes)
    : device(common_device(operation, tensors)), guard(device) {
  if (tensors.size() > operation.parameters.size()) [[unlikely]] {
    throw InvalidArgument(concatenate(operation.name, " takes at most ",
                                      operation.parameters.size(), " tensors, got ",
                                      tensors.size()));
  }
  if (!attributes.empty() && attributes.size() != operation.attributes.size()) [[unlikely]] {
    throw InvalidArgument(concatenate(operation.name, " has ", operation.attributes.size(),
                                      " attributes, got ", attributes.size()));
  }
  problem.operation = &operation;
  problem.tensor_count = static_cast<int>(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    try {
      problem.tensors[i] = to_tensor(*tensors[i]);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(
          concatenate(operation.name, ": '", operation.parameters[i].name, "': ", error.message()));
    }
  }
  for (size_t i = 0; i < operation.attributes.size(); ++i) {
    problem.attributes[i] = attributes.empty() ? operation.attributes[i].standard : attributes[i];
  }
  check(problem);
}

Reason Call::reason(ws_rung code) const {
  const Family& family = family_of(*problem.operation);
  const auto row = static_cast<size_t>(code & ((1 << kRowBits) - 1));
  require(code >= 0 && row < family.rungs.size(), "family '", family.name, "' has no rung number ",
          row);
  const uint64_t fixed = static_cast<uint64_t>(code) >> kRowBits;
  const DType dtype = problem.tensor(0).dtype;
  if (fixed != 0 && ((fixed >> static_cast<int>(dtype)) & 1) == 0) {
    return concatenate("the name fixes another dtype than ", ws::to_string(dtype));
  }
  return supports(family.rungs[row], problem, device_capability());
}

const Rung& Call::choose(ws_rung code) const {
  if (code == WS_BEST) return best(problem, device_capability());
  const Reason why = reason(code);
  const Family& family = family_of(*problem.operation);
  const Rung& rung = family.rungs[static_cast<size_t>(code & ((1 << kRowBits) - 1))];
  if (!why.empty()) {
    throw InvalidArgument(concatenate(problem.operation->name, "/", rung.name, " does not take ",
                                      problem.describe(), ": ", why));
  }
  return rung;
}

OutgoingCall::OutgoingCall(const Problem& problem, Stream stream) {
  DLDevice device{kDLCPU, 0};
#ifndef WS_EMULATED
  device.device_type = kDLCUDA;
  detail::check_cuda(cudaGetDevice(&device.device_id), "cudaGetDevice");
#endif
  for (int i = 0; i < problem.tensor_count; ++i) {
    const Tensor& from = problem.tensor(i);
    DLTensor& to = tensors_[static_cast<size_t>(i)];
    to = {from.data,
          device,
          from.rank,
          to_dlpack(from.dtype),
          const_cast<int64_t*>(from.shape.data()),  // NOLINT: DLPack has no const
          const_cast<int64_t*>(from.strides.data()),
          0};
    pointers_[static_cast<size_t>(i)] = &to;
  }
  call.operation = id_of(*problem.operation);
  call.rung = WS_BEST;
  call.tensor_count = problem.tensor_count;
  call.tensors = pointers_.data();
  call.attribute_count = static_cast<int32_t>(problem.operation->attributes.size());
  call.attributes = problem.attributes.data();
  call.stream = stream;
}

const std::string& catalogue_json() {
  static const std::string kText = [] {
    Json all = Json::array();
    for (const Family* family : families()) {
      Json rungs = Json::array();
      for (const Rung& rung : family->rungs) {
        rungs.push_back({{"name", rung.name},
                         {"idea", rung.idea},
                         {"dtypes", names_of(rung.dtypes)},
                         {"arch", ws::to_string(rung.arch)}});
      }
      Json operations = Json::array();
      for (const Operation& operation : family->operations) {
        operations.push_back(to_json(*family, operation));
      }
      all.push_back({{"name", family->name},
                     {"summary", family->summary},
                     {"rungs", rungs},
                     {"operations", operations}});
    }
#ifdef WS_EMULATED
    constexpr bool kEmulated = true;
#else
    constexpr bool kEmulated = false;
#endif
    return Json{{"version", "0.1.0"}, {"emulated", kEmulated}, {"families", all}}.dump();
  }();
  return kText;
}

ws_address address_of(std::string_view name) {
  const Address found = resolve(name);
  ws_address address{-1, -1, WS_BEST};
  const std::span<const Family* const> all = families();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] == found.family) address.family = static_cast<int32_t>(i);
  }
  if (found.operation != nullptr) address.operation = id_of(*found.operation);
  if (found.rung != nullptr) {
    address.rung = pack(static_cast<int>(found.rung - found.family->rungs.data()), found.dtypes);
  }
  return address;
}

}  // namespace ws::binding
