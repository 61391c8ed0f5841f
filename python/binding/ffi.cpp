// The C++ side of the Python package: the catalogue's operations as tvm-ffi functions.
//
// tvm-ffi turns torch, NumPy and any other __dlpack__ arrays into DLTensors, and sets the caller's
// stream and allocator (torch's) as its environment for the time of a call.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "python/binding/call.hpp"
#include "python/binding/measure.hpp"

namespace ws::binding {
namespace {

namespace ffi = tvm::ffi;

// Runs the body; what it throws becomes the Python exception of the same meaning.
template <class Body>
auto translated(Body&& body) {
  try {
    return body();
  } catch (const InvalidArgument& error) {
    throw ffi::Error("ValueError", error.what(), "");
  } catch (const Error& error) {
    throw ffi::Error("RuntimeError", error.what(), "");
  }
}

// Positional arguments of a call: tensors, attributes, then optionally rung, stream, workspace.
struct Arguments {
  Arguments(const Operation& operation, ffi::PackedArgs args, int tensors_given) {
    for (int i = 0; i < tensors_given; ++i) {
      tensors[static_cast<size_t>(i)] = args[i].cast<DLTensor*>();
    }
    tensor_count = static_cast<size_t>(tensors_given);
    attribute_count = operation.attributes.size();
    for (size_t i = 0; i < attribute_count; ++i) {
      attributes[i] = args[tensors_given + static_cast<int>(i)].cast<double>();
    }
    const int next = tensors_given + static_cast<int>(attribute_count);
    if (args.size() > next) rung = args[next].cast<int64_t>();
    if (args.size() > next + 1) {
      if (const auto handle = args[next + 1].as<int64_t>()) {
        stream = reinterpret_cast<void*>(*handle);
        has_stream = true;
      }
    }
    if (args.size() > next + 2 && args[next + 2] != nullptr) {
      workspace = args[next + 2].cast<DLTensor*>();
    }
  }

  Call call(const Operation& operation) const {
    return {operation, {tensors.data(), tensor_count}, {attributes.data(), attribute_count}};
  }

  std::array<const DLTensor*, kMaxTensors> tensors{};
  std::array<double, kMaxAttributes> attributes{};
  size_t tensor_count = 0;
  size_t attribute_count = 0;
  ws_rung rung = WS_BEST;
  void* stream = nullptr;
  bool has_stream = false;
  const DLTensor* workspace = nullptr;
};

// Memory for one call, from the caller: what it passed, or its framework's allocator, whose memory
// is safe to free when the call is enqueued, since it is reused in the order of the stream.
class Workspace {
 public:
  Workspace(size_t bytes, const Arguments& arguments, DLDevice device) {
    if (bytes == 0) return;
    if (arguments.workspace != nullptr) {
      const DLTensor& given = *arguments.workspace;
      const auto given_bytes = static_cast<size_t>(ffi::GetDataSize(given));
      require(given_bytes >= bytes, "the workspace has ", given_bytes, " bytes, the call needs ",
              bytes);
      data_ = static_cast<char*>(given.data) + given.byte_offset;
      return;
    }
#ifdef WS_EMULATED
    (void)device;
    host_ = std::make_unique<std::byte[]>(bytes + kAlignment);
    void* start = host_.get();
    size_t space = bytes + kAlignment;
    data_ = std::align(kAlignment, bytes, start, space);
#else
    if (TVMFFIEnvGetDLPackManagedTensorAllocator() == nullptr) {
      throw Error(concatenate("the call needs a workspace of ", bytes,
                              " bytes, and these arrays bring no allocator: pass one"));
    }
    const auto size = static_cast<int64_t>(bytes);
    device_ = ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, ffi::ShapeView(&size, 1),
                                        DLDataType{kDLUInt, 8, 1}, device);
    data_ = device_->data_ptr();
#endif
  }

  void* data() const { return data_; }

 private:
  static constexpr size_t kAlignment = 256;
  void* data_ = nullptr;
#ifdef WS_EMULATED
  std::unique_ptr<std::byte[]> host_;
#else
  std::optional<ffi::Tensor> device_;
#endif
};

// Whether a tensor's elements may be those of complex numbers, every other one. torch can say "and
// negated" of such a view, in a bit that DLPack does not have.
bool may_be_imaginary(const DLTensor& tensor) {
  if (tensor.dtype.code != kDLFloat || tensor.strides == nullptr) return false;
  for (int32_t d = 0; d < tensor.ndim; ++d) {
    const int64_t extent = tensor.shape[d];
    if (extent == 0 || (extent > 1 && tensor.strides[d] % 2 != 0)) return false;
  }
  return true;
}

// The last call of a function on this thread, checked and its rung chosen. What differs from it in
// addresses alone, and in these by multiples of 256 bytes, ends the same: neither is done again.
class Memo {
 public:
  // Whether this is such a call; then its addresses are taken over.
  bool takes(const Arguments& arguments) {
    if (rung == nullptr || arguments.rung != code_) return false;
    // By their bits: -0 is another attribute than 0.
    if (std::memcmp(&problem.attributes, &arguments.attributes, sizeof problem.attributes) != 0) {
      return false;
    }
    for (size_t i = 0; i < arguments.tensor_count; ++i) {
      if (!is_like(problem.tensors[i], *arguments.tensors[i])) return false;
    }
    for (size_t i = 0; i < arguments.tensor_count; ++i) {
      problem.tensors[i].data = data_of(*arguments.tensors[i]);
    }
    return true;
  }

  void remember(const Call& call, ws_rung code, const Rung& chosen) {
    rung = nullptr;
    workspace = chosen.workspace(call.problem);
    device = call.device;
    problem = call.problem;
    code_ = code;
    rung = &chosen;
  }

  const Rung* rung = nullptr;
  Problem problem;
  DLDevice device{};
  size_t workspace = 0;

 private:
  static constexpr uintptr_t kAlignment = 256;

  static void* data_of(const DLTensor& tensor) {
    return tensor.data == nullptr ? nullptr : static_cast<char*>(tensor.data) + tensor.byte_offset;
  }

  bool is_like(const Tensor& known, const DLTensor& given) const {
    const DLDataType dtype = to_dlpack(known.dtype);
    if (given.dtype.code != dtype.code || given.dtype.bits != dtype.bits ||
        given.dtype.lanes != 1 || given.device.device_type != device.device_type ||
        given.device.device_id != device.device_id || given.ndim != known.rank ||
        given.strides == nullptr) {
      return false;
    }
    for (int d = 0; d < known.rank; ++d) {
      const auto i = static_cast<size_t>(d);
      if (given.shape[d] != known.shape[i] || given.strides[d] != known.strides[i]) return false;
    }
    const auto apart =
        reinterpret_cast<uintptr_t>(data_of(given)) - reinterpret_cast<uintptr_t>(known.data);
    return apart % kAlignment == 0;
  }

  ws_rung code_ = WS_BEST;
};

Memo& memo_of(int64_t id, bool quick) {
  thread_local std::vector<Memo> memos;
  const auto index = 2 * static_cast<size_t>(id) + (quick ? 1 : 0);
  if (index >= memos.size()) memos.resize(index + 1);
  return memos[index];
}

void run_call(int64_t id, const Operation& operation, bool quick, ffi::PackedArgs args) {
  const Arguments arguments(operation, args, static_cast<int>(operation.parameters.size()));
  Memo& memo = memo_of(id, quick);
  if (!memo.takes(arguments)) {
    for (size_t i = 0; quick && i < arguments.tensor_count; ++i) {
      require(!may_be_imaginary(*arguments.tensors[i]), "a view that may be negated");
    }
    const Call call = arguments.call(operation);
    memo.remember(call, arguments.rung, call.choose(arguments.rung));
  }
  const DeviceGuard guard(memo.device);
  const Workspace workspace(memo.workspace, arguments, memo.device);
  void* stream = arguments.stream;
  if (!arguments.has_stream && memo.device.device_type == kDLCUDA) {
    stream = TVMFFIEnvGetStream(kDLCUDA, memo.device.device_id);
  }
  ws::run(*memo.rung, memo.problem, {static_cast<Stream>(stream), workspace.data()});
}

int input_count(const Operation& operation) {
  int count = 0;
  for (const Parameter& parameter : operation.parameters) count += parameter.output ? 0 : 1;
  return count;
}

// ---- What the module exports ------------------------------------------------------------------

ffi::String catalogue() {
  return translated([] { return ffi::String(catalogue_json()); });
}

// (family, operation, rung) of a name.
ffi::Shape resolve_name(const ffi::String& name) {
  return translated([&] {
    const ws_address address = address_of({name.data(), name.size()});
    return ffi::Shape({address.family, address.operation, address.rung});
  });
}

// A function (inputs and outputs, attributes, rung = best, stream = the caller's, workspace = the
// caller's allocator) that enqueues one call. Arrays of another device go to `other`, the same
// function of the other library. `quick` is for callers that have not asked torch whether a view is
// negated: what may be one is refused.
ffi::Function function_of(int64_t id, ffi::Optional<ffi::Function> other, bool quick) {
  return translated([&] {
    const Operation* operation = &operation_at(id);
    return ffi::Function::FromPacked(
        [id, operation, quick, other = std::move(other)](ffi::PackedArgs args, ffi::Any* result) {
          const auto least =
              static_cast<int>(operation->parameters.size() + operation->attributes.size());
          if (args.size() < least) [[unlikely]] {
            throw ffi::Error("TypeError",
                             concatenate(operation->name, " takes at least ", least,
                                         " arguments, got ", args.size()),
                             "");
          }
          if (other.has_value() && !is_ours(args[0].cast<DLTensor*>()->device)) {
            other.value().CallPacked(args, result);
            return;
          }
          translated([&] { run_call(id, *operation, quick, args); });
        });
  });
}

// Functions of (inputs, attributes, rung): the outputs' dtypes and shapes, flat: (code, bits, rank,
// extents...) each; the bytes of workspace; why not, or ""; the name of the rung.
template <class Body>
ffi::Function query_of(int64_t id, Body body) {
  return translated([&] {
    const Operation* operation = &operation_at(id);
    return ffi::Function::FromPacked([operation, body](ffi::PackedArgs args, ffi::Any* result) {
      translated([&] {
        const Arguments arguments(*operation, args, input_count(*operation));
        *result = body(arguments.call(*operation), arguments.rung);
      });
    });
  });
}

ffi::Function infer_of(int64_t id) {
  return query_of(id, [](const Call& call, ws_rung) {
    std::vector<int64_t> flat;
    for (const Tensor& tensor : call.problem.outputs()) {
      const DLDataType dtype = to_dlpack(tensor.dtype);
      flat.insert(flat.end(), {dtype.code, dtype.bits, tensor.rank});
      flat.insert(flat.end(), tensor.shape.begin(), tensor.shape.begin() + tensor.rank);
    }
    return ffi::Shape(flat);
  });
}

ffi::Function workspace_of(int64_t id) {
  return query_of(id, [](const Call& call, ws_rung rung) {
    return static_cast<int64_t>(call.choose(rung).workspace(call.problem));
  });
}

ffi::Function reason_of(int64_t id) {
  return query_of(id,
                  [](const Call& call, ws_rung rung) { return ffi::String(call.reason(rung)); });
}

ffi::Function choice_of(int64_t id) {
  return query_of(id, [](const Call& call, ws_rung rung) {
    return ffi::String(std::string(call.choose(rung).name));
  });
}

// A tensor over memory that somebody else keeps alive.
ffi::Tensor view_of(const DLTensor& from) {
  struct Borrowed {
    void AllocData(DLTensor* tensor, void* data) { tensor->data = data; }
    void FreeData(DLTensor*) {}
  };
  const auto rank = static_cast<size_t>(from.ndim);
  return ffi::Tensor::FromNDAllocStrided(Borrowed{}, ffi::ShapeView(from.shape, rank),
                                         ffi::ShapeView(from.strides, rank), from.dtype,
                                         from.device, from.data);
}

// The same for Python; strides in elements.
ffi::Tensor view_of_memory(int64_t address, int64_t code, int64_t bits, int64_t device_type,
                           int64_t device, const ffi::Shape& shape, const ffi::Shape& strides) {
  return translated([&] {
    require(shape.size() == strides.size(), shape.size(), " extents and ", strides.size(),
            " strides");
    return view_of({reinterpret_cast<void*>(address),
                    {static_cast<DLDeviceType>(device_type), static_cast<int32_t>(device)},
                    static_cast<int32_t>(shape.size()),
                    {static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1},
                    const_cast<int64_t*>(shape.data()),  // NOLINT: DLPack has no const
                    const_cast<int64_t*>(strides.data()),
                    0});
  });
}

void wait_for(int64_t device, int64_t stream) {
  translated([&] { synchronize(static_cast<int>(device), reinterpret_cast<void*>(stream)); });
}

ffi::String verify_rungs(const ffi::String& options) {
  return translated([&] { return ffi::String(verify(std::string(options))); });
}

// Each peer is called as peer(operation id, attributes, tensors, stream).
ffi::String bench_rungs(const ffi::String& options, const ffi::Array<ffi::String>& names,
                        const ffi::Array<ffi::Function>& peers, int64_t stream) {
  return translated([&] {
    std::vector<harness::CallbackPeer> callbacks;
    for (size_t i = 0; i < peers.size(); ++i) {
      callbacks.push_back(
          {std::string(names[static_cast<int64_t>(i)]),
           [peer = peers[static_cast<int64_t>(i)]](const Problem& problem, Stream s) {
             const OutgoingCall outgoing(problem, s);
             const ws_call& call = outgoing.call;
             ffi::Array<ffi::Tensor> tensors;
             for (int32_t k = 0; k < call.tensor_count; ++k) {
               tensors.push_back(view_of(*call.tensors[k]));
             }
             try {
               peer(call.operation,
                    ffi::Array<double>(call.attributes, call.attributes + call.attribute_count),
                    tensors, reinterpret_cast<int64_t>(call.stream));
             } catch (const ffi::Error& error) {
               throw Error(error.what());
             }
           }});
    }
    return ffi::String(
        bench(std::string(options), std::move(callbacks), reinterpret_cast<Stream>(stream)));
  });
}

}  // namespace
}  // namespace ws::binding

TVM_FFI_DLL_EXPORT_TYPED_FUNC(catalogue, ws::binding::catalogue)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(resolve, ws::binding::resolve_name)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(function_of, ws::binding::function_of)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(infer_of, ws::binding::infer_of)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(workspace_of, ws::binding::workspace_of)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(reason_of, ws::binding::reason_of)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(choice_of, ws::binding::choice_of)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(view_of_memory, ws::binding::view_of_memory)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(synchronize, ws::binding::wait_for)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(verify, ws::binding::verify_rungs)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(bench, ws::binding::bench_rungs)
