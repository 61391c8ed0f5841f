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

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "catalogue/catalogue_json.hpp"
#include "catalogue/fill.hpp"
#include "python/binding/call.hpp"
#include "python/binding/measure.hpp"
#include "python/binding/python_api.hpp"
#include "python/binding/zeroed_memory.hpp"
#include "report/plots.hpp"
#include "warpsmith/interrupt.hpp"

namespace ws::binding {
namespace {

namespace ffi = tvm::ffi;

// While it lives, launches of this thread in the emulator run the handlers of Python's signals,
// which are Python's main thread's; what a handler raises, as that of Ctrl-C does, ends the launch.
class Interruptible {
 public:
  Interruptible() {
    if constexpr (runtime::kEmulated) {
      if (runtime::asking) {
        throw ffi::Error("RuntimeError",
                         "a handler of a signal may not call warpsmith while its thread does", "");
      }
      previous_ = std::exchange(runtime::interruption, [] {
        if (TVMFFIEnvCheckSignals() != 0) throw runtime::Interrupted{};
      });
    }
  }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  ~Interruptible() {
    if constexpr (runtime::kEmulated) runtime::interruption = previous_;
  }

 private:
  runtime::Interruption previous_ = nullptr;
};

// Runs the body; what it throws becomes the Python exception of the same meaning.
template <class Body>
auto translated(Body&& body) {
  const Interruptible interruptible;
  try {
    return body();
  } catch (const runtime::Interrupted&) {
    throw ffi::EnvErrorAlreadySet();
  } catch (const InvalidArgument& error) {
    throw ffi::Error("ValueError", error.what(), "");
  } catch (const Error& error) {
    throw ffi::Error("RuntimeError", error.what(), "");
  }
}

int dim_of(int64_t dim) {
  require(dim >= -128 && dim <= 127, "dimension ", dim, " of an array of at most ", kMaxRank);
  return static_cast<int>(dim);
}

// A choice comes as its index, a dimension list as an integer or a tuple, none as None.
Value value_of(const Attribute& attribute, const ffi::AnyView& given) {
  if (given == nullptr) return Value::absent();
  switch (attribute.kind) {
    case Value::Kind::kBool: {
      const auto number = given.cast<int64_t>();
      require(number == 0 || number == 1, attribute.name, " is true or false, not ", number);
      return number == 1;
    }
    case Value::Kind::kInt: return given.cast<int64_t>();
    case Value::Kind::kFloat: return given.cast<double>();
    case Value::Kind::kChoice: return Value::choice(static_cast<int>(given.cast<int64_t>()));
    case Value::Kind::kDims: break;
    case Value::Kind::kUnset:
    case Value::Kind::kAbsent: return {};
  }
  Dims dims;
  if (const auto one = given.as<int64_t>()) {
    dims.at[static_cast<size_t>(dims.count++)] = dim_of(*one);
    return dims;
  }
  const auto list = given.cast<ffi::Array<int64_t>>();
  require(list.size() <= dims.at.size(), list.size(), " dimensions; at most ", dims.at.size());
  for (const int64_t dim : list) dims.at[static_cast<size_t>(dims.count++)] = dim_of(dim);
  return dims;
}

// Positional arguments of a call: a tensor or None for each parameter, the attributes, then
// optionally rung, stream, workspace.
struct Arguments {
  explicit Arguments(const Operation& operation)
      : tensor_count(operation.parameters.size()), attribute_count(operation.attributes.size()) {}

  Arguments(const Operation& operation, const ffi::PackedArgs& args) : Arguments(operation) {
    const auto least = static_cast<int>(tensor_count + attribute_count);
    if (args.size() < least) [[unlikely]] {
      throw ffi::Error(
          "TypeError",
          concatenate(operation.name, " takes at least ", least, " arguments, got ", args.size()),
          "");
    }
    int next = 0;
    for (size_t i = 0; i < tensor_count; ++i, ++next) {
      if (args[next] != nullptr) tensors[i] = args[next].cast<DLTensor*>();
    }
    for (size_t i = 0; i < attribute_count; ++i, ++next) {
      attributes[i] = value_of(operation.attributes[i], args[next]);
    }
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
  std::array<Value, kMaxAttributes> attributes{};
  size_t tensor_count;
  size_t attribute_count;
  ws_rung rung = WS_BEST;
  void* stream = nullptr;
  bool has_stream = false;
  const DLTensor* workspace = nullptr;
};

// Memory for one call, its prefix zero: kept memory of the stream where there is a prefix and it
// can be; else what the caller passed, or its framework's allocator, whose memory is safe to free
// when the call is enqueued, since it is reused in the order of the stream (of the graph, where one
// is being captured: it then owns the memory and the clearing).
class Scratch {
 public:
  Scratch(const Workspace& need, const Arguments& arguments, DLDevice device, Stream stream) {
    if (need.bytes == 0) return;
    if (need.zeroed > 0) {
      zeroed_ = ZeroedMemory::take(need, stream);
      if (zeroed_) {
        data_ = zeroed_->data();
        return;
      }
    }
    if (arguments.workspace != nullptr) {
      const DLTensor& given = *arguments.workspace;
      const auto given_bytes = static_cast<size_t>(ffi::GetDataSize(given));
      require(given_bytes >= need.bytes, "the workspace has ", given_bytes,
              " bytes, the call needs ", need.bytes);
      data_ = static_cast<char*>(given.data) + given.byte_offset;
    } else if constexpr (runtime::kEmulated) {
      host_.reset(runtime::allocate(need.bytes));
      data_ = host_.get();
    } else {
      if (TVMFFIEnvGetDLPackManagedTensorAllocator() == nullptr) {
        throw Error(concatenate("the call needs a workspace of ", need.bytes,
                                " bytes, and these arrays bring no allocator: pass one"));
      }
      const auto size = static_cast<int64_t>(need.bytes);
      device_ = ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, ffi::ShapeView(&size, 1),
                                          DLDataType{kDLUInt, 8, 1}, device);
      data_ = device_->data_ptr();
    }
    if (need.zeroed > 0) set_zero(data_, need.zeroed, stream);
  }

  void* data() const { return data_; }
  void failed() noexcept {
    if (zeroed_) zeroed_->clear();
  }

 private:
  struct Free {
    void operator()(void* memory) const { runtime::free(memory); }
  };
  void* data_ = nullptr;
  std::optional<ZeroedMemory> zeroed_;
  std::unique_ptr<void, Free> host_;
  std::optional<ffi::Tensor> device_;
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
// addresses alone, in these by multiples of 256 bytes, and shares memory between its tensors where
// the last one did, ends the same: neither is done again.
class Memo {
 public:
  // Whether all but addresses, and what is only written, is as in the last call: then outputs are
  // such as its were.
  bool reads_alike(const Arguments& arguments) const {
    if (rung_ == nullptr) return false;
    for (size_t i = 0; i < arguments.attribute_count; ++i) {
      if (arguments.attributes[i] != attributes_[i]) return false;
    }
    const std::span<const Parameter> parameters = call_->operation().parameters;
    for (size_t i = 0; i < arguments.tensor_count; ++i) {
      if (!parameters[i].is_read()) continue;
      const Tensor& known = call_->problem().tensors[i];
      if ((arguments.tensors[i] != nullptr) != known.exists()) return false;
      if (known.exists() && !lies_alike(known, *arguments.tensors[i])) return false;
    }
    return true;
  }

  // Whether this is such a call; then its addresses are taken over.
  bool takes(const Arguments& arguments) {
    if (rung_ == nullptr || arguments.rung != code_) return false;
    for (size_t i = 0; i < arguments.attribute_count; ++i) {
      if (arguments.attributes[i] != attributes_[i]) return false;
    }
    bool moved = false;
    for (size_t i = 0; i < arguments.tensor_count; ++i) {
      const Tensor& known = call_->problem().tensors[i];
      if (arguments.tensors[i] == nullptr || !known.exists()) {
        if (arguments.tensors[i] != nullptr || known.exists()) return false;
        continue;
      }
      if (!is_like(known, *arguments.tensors[i])) return false;
      moved = moved || known.data != data_of(*arguments.tensors[i]);
    }
    if (!moved) return true;
    if (!shares_alike(arguments)) return false;
    for (size_t i = 0; i < arguments.tensor_count; ++i) {
      if (arguments.tensors[i] == nullptr) continue;
      call_->move(static_cast<int>(i), data_of(*arguments.tensors[i]));
    }
    call_->remake();
    return true;
  }

  void remember(const Call& call, const Arguments& arguments, const Rung& chosen) {
    rung_ = nullptr;
    workspace_ = workspace_of(chosen, call.checked());
    device_ = call.device();
    code_ = arguments.rung;
    attributes_ = arguments.attributes;
    call_ = std::make_unique<AnyCall>(call.checked());
    measure();
    rung_ = &chosen;
  }

  const Rung& rung() const { return *rung_; }
  const AnyCall& call() const { return *call_; }
  const Workspace& workspace() const { return workspace_; }
  DLDevice device() const { return device_; }

 private:
  static constexpr uintptr_t kAlignment = 256;

  // Addresses of a tensor's elements, as distances in bytes from its own.
  struct Reach {
    int64_t first = 0;
    int64_t last = 0;  // exclusive
  };

  static void* data_of(const DLTensor& tensor) {
    return tensor.data == nullptr ? nullptr : static_cast<char*>(tensor.data) + tensor.byte_offset;
  }

  static int64_t address(const void* data) { return reinterpret_cast<int64_t>(data); }

  bool lies_alike(const Tensor& known, const DLTensor& given) const {
    const DLDataType dtype = to_dlpack(known.dtype);
    if (given.dtype.code != dtype.code || given.dtype.bits != dtype.bits ||
        given.dtype.lanes != 1 || given.device.device_type != device_.device_type ||
        given.device.device_id != device_.device_id || given.ndim != known.rank ||
        given.strides == nullptr) {
      return false;
    }
    for (int d = 0; d < known.rank; ++d) {
      if (given.shape[d] != known.extent(d) || given.strides[d] != known.stride(d)) return false;
    }
    return true;
  }

  bool is_like(const Tensor& known, const DLTensor& given) const {
    if (!lies_alike(known, given)) return false;
    void* const data = data_of(given);
    return (data == nullptr) == (known.data == nullptr) &&
           (address(data) - address(known.data)) % static_cast<int64_t>(kAlignment) == 0;
  }

  void measure() {
    const std::span<const Parameter> parameters = call_->operation().parameters;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Tensor& tensor = call_->problem().tensors[i];
      reach_[i] = {};
      if (tensor.elements() == 0) continue;
      const auto size = static_cast<int64_t>(size_of(tensor.dtype));
      reach_[i].last = size;
      for (int d = 0; d < tensor.rank; ++d) {
        const int64_t step = size * tensor.stride(d) * (tensor.extent(d) - 1);
        (step < 0 ? reach_[i].first : reach_[i].last) += step;
      }
    }
  }

  // Whether no written tensor comes near another one, unless both lie as they did.
  bool shares_alike(const Arguments& arguments) const {
    const std::span<const Parameter> parameters = call_->operation().parameters;
    for (size_t w = 0; w < parameters.size(); ++w) {
      if (!parameters[w].is_written() || arguments.tensors[w] == nullptr) continue;
      const int64_t written = address(data_of(*arguments.tensors[w]));
      for (size_t i = 0; i < parameters.size(); ++i) {
        if (i == w || arguments.tensors[i] == nullptr) continue;
        const int64_t other = address(data_of(*arguments.tensors[i]));
        if (written + reach_[w].first >= other + reach_[i].last ||
            other + reach_[i].first >= written + reach_[w].last) {
          continue;
        }
        const int64_t apart =
            address(call_->problem().tensors[w].data) - address(call_->problem().tensors[i].data);
        if (written - other != apart) return false;
      }
    }
    return true;
  }

  const Rung* rung_ = nullptr;
  std::unique_ptr<AnyCall> call_;
  std::array<Value, kMaxAttributes> attributes_{};  // as the caller gave them
  std::array<Reach, kMaxTensors> reach_{};
  Workspace workspace_;
  DLDevice device_{};
  ws_rung code_ = WS_BEST;
};

// What a caller knows of torch's tensors.
enum Way : int64_t {
  kGeneral = 0,  // all: they are what they seem
  kFresh = 1,    // that outputs are new; whether a view is negated was not asked
  kGiven = 2,    // nothing
  kMade = 3,     // as kFresh, and outputs are to be made
};

Memo& memo_of(int64_t id, Way way) {
  thread_local std::vector<std::unique_ptr<Memo>> memos;
  if (way == kMade) way = kFresh;
  const auto index = 3 * static_cast<size_t>(id) + static_cast<size_t>(way);
  if (index >= memos.size()) memos.resize(index + 1);
  if (memos[index] == nullptr) memos[index] = std::make_unique<Memo>();
  return *memos[index];
}

// Of a first call with a tensor of more elements the emulator tells Python, which warns its user.
constexpr int64_t kManyElements = int64_t{1} << 18;

void tell_of_many_elements(const Call& call) {
  static std::atomic<bool> told = false;
  int64_t most = 0;
  for (const Tensor& tensor : call.problem().tensors) {
    if (tensor.exists()) most = std::max(most, tensor.elements());
  }
  if (most <= kManyElements || told.exchange(true)) return;
  try {
    if (const auto tell = ffi::Function::GetGlobal("warpsmith.many_elements")) {
      (*tell)(ffi::String(std::string(call.problem().operation->name)), most, kManyElements);
    }
  } catch (...) {  // a warning that is an error stops this call, and the next
    told = false;
    throw;
  }
}

// The call in the memo, made so that it is the given one. False where a view may be negated, which
// the general way finds out.
bool prepare(const Operation& operation, Way way, const Arguments& arguments, Memo& memo) {
  if (memo.takes(arguments)) return true;
  for (size_t i = 0; way != kGeneral && i < arguments.tensor_count; ++i) {
    if (arguments.tensors[i] == nullptr) continue;
    if (way == kFresh && !operation.parameters[i].is_read()) continue;
    if (may_be_imaginary(*arguments.tensors[i])) return false;
  }
  const Call call = arguments.call(operation);
  const Rung& chosen = call.choose(arguments.rung);
  if constexpr (runtime::kEmulated) tell_of_many_elements(call);
  memo.remember(call, arguments, chosen);
  return true;
}

void enqueue(const Memo& memo, const Arguments& arguments) {
  const DLDevice device = memo.device();
  const runtime::DeviceScope scope(runtime::kEmulated ? 0 : device.device_id);
  void* stream = arguments.stream;
  if (!arguments.has_stream && device.device_type == kDLCUDA) {
    stream = TVMFFIEnvGetStream(kDLCUDA, device.device_id);
  }
  Scratch scratch(memo.workspace(), arguments, device, static_cast<Stream>(stream));
  try {
    ws::run(memo.rung(), memo.call(), {static_cast<Stream>(stream), scratch.data()});
  } catch (...) {
    scratch.failed();
    throw;
  }
}

void run_call(int64_t id, const Operation& operation, const ffi::PackedArgs& args) {
  Memo& memo = memo_of(id, kGeneral);
  const Arguments arguments(operation, args);
  prepare(operation, kGeneral, arguments, memo);
  enqueue(memo, arguments);
}

// ---- Quick calls: functions of Python's own kind, on torch's tensors as they are ---------------

// What is torch's, and raises what rethrow() throws; Python keeps these objects.
struct Torch {
  const DLPackExchangeAPI* exchange = nullptr;
  python::Object* empty_strided = nullptr;  // of sizes, strides and dtype, on the current device
  python::Object* fills_memory = nullptr;   // whether it may set new memory: of no arguments
  python::Object* has_names = nullptr;      // of a tensor; null where none can have any
  python::Object* rethrow = nullptr;
  std::array<python::Object*, kDTypeFacts.size()> dtypes{};
};
Torch torch;

// Of the quick call on this thread that failed last.
thread_local std::exception_ptr failure;

std::optional<int64_t> integer_of(python::Object& given) {
  if (!python::is_a(given, python::PyLong_Type)) return std::nullopt;
  int overflow = 0;
  const int64_t number = python::PyLong_AsLongLongAndOverflow(&given, &overflow);
  return overflow == 0 ? std::optional(number) : std::nullopt;
}

// As the other value_of(), from what Python has; nothing where that says what is wrong.
std::optional<Value> value_of(const Attribute& attribute, python::Object& given) {
  if (&given == &python::_Py_NoneStruct) return Value::absent();
  const std::optional<int64_t> integer = integer_of(given);
  switch (attribute.kind) {
    case Value::Kind::kBool:
      if (integer != 0 && integer != 1) return std::nullopt;
      return *integer == 1;
    case Value::Kind::kInt: return integer;
    case Value::Kind::kFloat:
      if (integer) return static_cast<double>(*integer);
      if (!python::is_a(given, python::PyFloat_Type)) return std::nullopt;
      return python::PyFloat_AsDouble(&given);
    case Value::Kind::kChoice:
      if (!integer) return std::nullopt;
      return Value::choice(static_cast<int>(*integer));
    case Value::Kind::kDims: break;
    case Value::Kind::kUnset:
    case Value::Kind::kAbsent: return std::nullopt;
  }
  Dims dims;
  const auto add = [&](std::optional<int64_t> dim) {
    if (!dim || static_cast<size_t>(dims.count) == dims.at.size()) return false;
    dims.at[static_cast<size_t>(dims.count++)] = dim_of(*dim);
    return true;
  };
  if (integer) return add(integer) ? std::optional<Value>(dims) : std::nullopt;
  if (!python::is_a(given, python::PyTuple_Type) && !python::is_a(given, python::PyList_Type)) {
    return std::nullopt;
  }
  const intptr_t size = python::PySequence_Size(&given);
  for (intptr_t i = 0; i < size; ++i) {
    const python::Owned dim(python::PySequence_GetItem(&given, i));
    if (dim.get() == nullptr || !add(integer_of(*dim.get()))) return std::nullopt;
  }
  return dims;
}

// A function of Python's: (parameters, attributes, rung = best) of one operation.
struct QuickCall {
  int64_t id;
  const Operation* operation;
  Way way;
  const QuickCall* other;  // the same of the other library, which may take what is elsewhere
  python::Object* (*call)(const QuickCall&, python::Object* const*, intptr_t);

  // What tells Python that nothing ran.
  python::Object* not_taken() const {
    python::PyErr_Clear();
    return python::shared(way == kMade ? python::_Py_NoneStruct : python::_Py_FalseStruct);
  }
};

// Its arguments, as torch and Python have them.
class QuickArguments : public Arguments {
 public:
  explicit QuickArguments(const QuickCall& quick) : Arguments(*quick.operation), quick_(quick) {}

  // Whether they are such as may be taken.
  bool take(python::Object* const* given, intptr_t count) {
    const Operation& operation = *quick_.operation;
    intptr_t next = 0;
    for (size_t i = 0; i < tensor_count; ++i) {
      if (quick_.way == kMade && !operation.parameters[i].is_read()) continue;
      if (next == count || !see(i, *given[next])) return false;
      if (is_elsewhere()) return false;
      ++next;
    }
    if (first == nullptr) return false;
    for (size_t i = 0; i < attribute_count; ++i) {
      if (next == count) return false;
      const std::optional<Value> value = value_of(operation.attributes[i], *given[next++]);
      if (!value) return false;
      attributes[i] = *value;
    }
    if (next < count) {
      const std::optional<int64_t> code = integer_of(*given[next]);
      if (!code) return false;
      rung = *code;
    }
    if (first->device.device_type == kDLCUDA) {
      has_stream = true;
      return torch.exchange->current_work_stream(kDLCUDA, first->device.device_id, &stream) == 0;
    }
    return true;
  }

  // Whether a tensor is another library's.
  bool is_elsewhere() const { return first != nullptr && !is_ours(first->device); }

  bool see(size_t i, python::Object& tensor) {
    if (&tensor == &python::_Py_NoneStruct) return true;
    if (torch.exchange->dltensor_from_py_object_no_sync(&tensor, &views_[i]) != 0) return false;
    if (!is_held(views_[i])) return false;
    tensors[i] = &views_[i];
    if (first == nullptr) first = &views_[i];
    return true;
  }

  const DLTensor* first = nullptr;

 private:
  // Not so a tensor that stands for another, as in torch.func.functionalize.
  static bool is_held(const DLTensor& view) {
    return view.data != nullptr ||
           std::find(view.shape, view.shape + view.ndim, 0) != view.shape + view.ndim;
  }

  const QuickCall& quick_;
  std::array<DLTensor, kMaxTensors> views_;
};

// Tensors that a quick call makes and returns.
class Results {
 public:
  // All outputs that the call in the memo has, alike; false where one cannot be made.
  bool make(const Memo& memo, QuickArguments& arguments) {
    const runtime::DeviceScope scope(runtime::kEmulated ? 0 : memo.device().device_id);
    const Operation& operation = memo.call().operation();
    for (size_t i = 0; i < operation.parameters.size(); ++i) {
      const Tensor& known = memo.call().problem().tensors[i];
      if (operation.parameters[i].is_read() || !known.exists()) continue;
      made_[count_] = empty_like(known);
      python::Object* const made = made_[count_].get();
      if (made == nullptr || !arguments.see(i, *made)) return false;
      ++count_;
    }
    return true;
  }

  // The only one, else a tuple.
  python::Object* release() {
    if (count_ == 1) return made_[0].release();
    python::Object* const tuple = python::PyTuple_New(static_cast<intptr_t>(count_));
    for (size_t i = 0; tuple != nullptr && i < count_; ++i) {
      python::PyTuple_SetItem(tuple, static_cast<intptr_t>(i), made_[i].release());
    }
    return tuple;
  }

 private:
  static python::Owned tuple_of(std::span<const int64_t> numbers) {
    python::Owned tuple(python::PyTuple_New(static_cast<intptr_t>(numbers.size())));
    for (size_t i = 0; tuple.get() != nullptr && i < numbers.size(); ++i) {
      python::PyTuple_SetItem(tuple.get(), static_cast<intptr_t>(i),
                              python::PyLong_FromLongLong(numbers[i]));
    }
    return tuple;
  }

  // By torch's function for compiled code, which asks neither dispatcher nor modes.
  static python::Owned empty_like(const Tensor& known) {
    const auto rank = static_cast<size_t>(known.rank);
    const python::Owned sizes = tuple_of({known.shape.data(), rank});
    const python::Owned strides = tuple_of({known.strides.data(), rank});
    if (sizes.get() == nullptr || strides.get() == nullptr) return {};
    const std::array given = {sizes.get(), strides.get(),
                              torch.dtypes[static_cast<size_t>(known.dtype)]};
    return python::Owned(
        python::PyObject_Vectorcall(torch.empty_strided, given.data(), given.size(), nullptr));
  }

  std::array<python::Owned, kMaxTensors> made_;
  size_t count_ = 0;
};

// What a function says; true, too, where it fails.
bool is_true(python::Object* function, std::span<python::Object* const> given) {
  const python::Owned answer(
      python::PyObject_Vectorcall(function, given.data(), given.size(), nullptr));
  return answer.get() != &python::_Py_FalseStruct;
}

// torch's allocator, for the workspace of a call.
class TorchAllocator {
 public:
  TorchAllocator() {
    TVMFFIEnvSetDLPackManagedTensorAllocator(torch.exchange->managed_tensor_allocator, 0,
                                             &previous_);
  }
  TorchAllocator(const TorchAllocator&) = delete;
  TorchAllocator& operator=(const TorchAllocator&) = delete;
  ~TorchAllocator() { TVMFFIEnvSetDLPackManagedTensorAllocator(previous_, 0, nullptr); }

 private:
  DLPackManagedTensorAllocator previous_ = nullptr;
};

python::Object* run_quickly(const QuickCall& quick, python::Object* const* given, intptr_t count) {
  QuickArguments arguments(quick);
  Results results;
  Memo& memo = memo_of(quick.id, quick.way);
  std::optional<Interruptible> interruptible;
  try {
    if (!arguments.take(given, count)) {
      if (quick.other == nullptr || !arguments.is_elsewhere()) return quick.not_taken();
      return quick.other->call(*quick.other, given, count);
    }
    if (quick.way == kMade &&
        (!memo.reads_alike(arguments) || is_true(torch.fills_memory, {}) ||
         (torch.has_names != nullptr && is_true(torch.has_names, {given, 1})) ||
         !results.make(memo, arguments))) {
      return quick.not_taken();
    }
    interruptible.emplace();
    if (!prepare(*quick.operation, quick.way, arguments, memo)) return quick.not_taken();
  } catch (const std::exception&) {
    return quick.not_taken();  // nothing ran: the general way finds the same, and says it better
  }
  try {
    std::optional<TorchAllocator> allocator;
    if (memo.workspace().bytes > 0) allocator.emplace();
    const python::Unlocked unlocked;
    enqueue(memo, arguments);
  } catch (const runtime::Interrupted&) {
    return nullptr;  // with what the signal's handler raised
  } catch (...) {
    failure = std::current_exception();
    return python::PyObject_Vectorcall(torch.rethrow, nullptr, 0, nullptr);
  }
  return quick.way == kMade ? results.release() : python::shared(python::_Py_TrueStruct);
}

// ---- What the module exports ------------------------------------------------------------------

ffi::String catalogue() {
  return translated([] { return ffi::String(catalogue_text()); });
}

// (family, operation, rung) of a name.
ffi::Shape resolve_name(const ffi::String& name) {
  return translated([&] {
    const ws_address address = address_of({name.data(), name.size()});
    return ffi::Shape({address.family, address.operation, address.rung});
  });
}

// Whether the first of the tensors is another library's.
bool is_elsewhere(const Operation& operation, const ffi::PackedArgs& args) {
  for (int i = 0; i < static_cast<int>(operation.parameters.size()) && i < args.size(); ++i) {
    if (const auto tensor = args[i].try_cast<DLTensor*>()) return !is_ours((*tensor)->device);
  }
  return false;
}

// A function (parameters, attributes, rung = best, stream = the caller's, workspace = the caller's
// allocator) that enqueues one call. Arrays of another device go to `other`, the same function of
// the other library.
ffi::Function function_of(int64_t id, ffi::Optional<ffi::Function> other) {
  return translated([&] {
    const Operation* operation = &operation_at(id);
    return ffi::Function::FromPacked(
        [id, operation, other = std::move(other)](ffi::PackedArgs args, ffi::Any* result) {
          if (other.has_value() && is_elsewhere(*operation, args)) {
            other.value().CallPacked(args, result);
          } else {
            translated([&] { run_call(id, *operation, args); });
          }
        });
  });
}

// Addresses of what quick calls take from Python: torch's table of functions for DLPack, and what
// Torch has.
void use_torch(int64_t exchange, int64_t empty_strided, int64_t fills_memory, int64_t has_names,
               int64_t rethrow, const ffi::Array<int64_t>& dtypes) {
  translated([&] {
    const auto object = [](int64_t address) { return reinterpret_cast<python::Object*>(address); };
    const auto* const functions = reinterpret_cast<const DLPackExchangeAPI*>(exchange);
    require(functions->header.version.major == DLPACK_MAJOR_VERSION &&
                functions->dltensor_from_py_object_no_sync != nullptr,
            "this torch has no table of functions for DLPack that takes tensors as they are");
    require(dtypes.size() == torch.dtypes.size(), torch.dtypes.size(), " dtypes, got ",
            dtypes.size());
    torch = {functions, object(empty_strided), object(fills_memory), object(has_names),
             object(rethrow)};
    for (size_t i = 0; i < torch.dtypes.size(); ++i) {
      torch.dtypes[i] = object(dtypes[static_cast<int64_t>(i)]);
    }
  });
}

// The address of a QuickCall, for the other library and for object_of(); `other` is one, or 0.
int64_t quick_call_of(int64_t id, int64_t way, int64_t other) {
  return translated([&] {
    static std::mutex one_at_a_time;  // tvm-ffi gives Python's lock away
    static std::vector<std::unique_ptr<QuickCall>> kept;
    const std::lock_guard lock(one_at_a_time);
    kept.push_back(std::make_unique<QuickCall>(
        QuickCall{id, &operation_at(id), static_cast<Way>(way),
                  reinterpret_cast<const QuickCall*>(other), run_quickly}));
    return reinterpret_cast<int64_t>(kept.back().get());
  });
}

// The address of a new function of Python's for a QuickCall. It takes plain tensors of torch's, and
// does not take what may be negated, nor what is not right: then nothing ran, and it returns False,
// or None where it is to make the outputs; else True, or those that there are. What a call that ran
// fails with is raised.
int64_t object_of(int64_t quick_call) {
  constexpr const char* kName = "warpsmith.quick_call";
  static python::Method method = {
      "quick_call",
      [](python::Object* self, python::Object* const* given, intptr_t count) {
        const auto& quick =
            *static_cast<const QuickCall*>(python::PyCapsule_GetPointer(self, kName));
        return quick.call(quick, given, count);
      },
      python::kFastCall, nullptr};
  const python::Owned capsule(
      python::PyCapsule_New(reinterpret_cast<void*>(quick_call), kName, nullptr));
  return reinterpret_cast<int64_t>(python::PyCFunction_NewEx(&method, capsule.get(), nullptr));
}

// What the quick call of this thread that failed last had thrown.
void rethrow() {
  translated([] {
    if (failure != nullptr) std::rethrow_exception(std::exchange(failure, nullptr));
  });
}

// Functions of (parameters, attributes, rung) with None for outputs that are not there: dtypes and
// shapes of the outputs, flat: (code, bits, rank, extents...) each, rank -1 where the call has no
// such output; bytes of workspace; why not, or ""; the name of the rung; what the operation's cost
// counts of floating-point operations, whatever the rung.
template <class Body>
ffi::Function query_of(int64_t id, Body body) {
  return translated([&] {
    const Operation* operation = &operation_at(id);
    return ffi::Function::FromPacked([operation, body](ffi::PackedArgs args, ffi::Any* result) {
      translated([&] {
        const Arguments arguments(*operation, args);
        *result = body(arguments.call(*operation), arguments.rung);
      });
    });
  });
}

ffi::Function infer_of(int64_t id) {
  return query_of(id, [](const Call& call, ws_rung) {
    std::vector<int64_t> flat;
    const Problem& problem = call.problem();
    for (size_t i = 0; i < problem.operation->parameters.size(); ++i) {
      if (problem.operation->parameters[i].is_read()) continue;
      const Tensor& tensor = problem.tensors[i];
      const DLDataType dtype = to_dlpack(tensor.dtype);
      flat.insert(flat.end(), {dtype.code, dtype.bits, tensor.rank});
      if (!tensor.exists()) continue;
      flat.insert(flat.end(), tensor.extents().begin(), tensor.extents().end());
    }
    return ffi::Array<int64_t>(flat.begin(), flat.end());
  });
}

ffi::Function workspace_bytes_of(int64_t id) {
  return query_of(id, [](const Call& call, ws_rung rung) {
    return static_cast<int64_t>(workspace_of(call.choose(rung), call.checked()).bytes);
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

ffi::Function flops_of(int64_t id) {
  return query_of(id, [](const Call& call, ws_rung) {
    const Problem& problem = call.problem();
    return problem.operation->cost(problem).flops;
  });
}

// ---- Cases: what the operation says that it is to be tried on ----------------------------------

std::span<const Case> cases_in(const Operation& operation, const ffi::String& list) {
  const std::string name(list);
  const Cases cases = operation.cases();
  if (name == "smoke") return cases.smoke;
  if (name == "verify") return cases.verify;
  if (name == "bench") return cases.bench;
  throw InvalidArgument(concatenate("cases '", name, "': 'smoke', 'verify' or 'bench'"));
}

// The checked call of a case as cases_of() has it, or as a caller changed it; without data.
AnyCall call_of_case(const Operation& operation, const ffi::String& text,
                     const ffi::String& dtype) {
  const Json json = Json::parse(std::string(text), nullptr, false);
  require(json.is_object() && json.contains("extents"), "a case is JSON with extents, not ",
          std::string(text));
  Case chosen;
  const auto extents = json["extents"].get<std::vector<int64_t>>();
  require(extents.size() <= operation.extent_names.size(), operation.name, " has ",
          operation.extent_names.size(), " extents, got ", extents.size());
  std::ranges::copy(extents, chosen.extents.begin());
  chosen.offset = json.value("offset", 0);
  chosen.padding = json.value("padding", int64_t{0});
  const Json attributes = json.value("attributes", Json::object());
  for (size_t i = 0; i < operation.attributes.size(); ++i) {
    const auto given = attributes.find(operation.attributes[i].name);
    if (given != attributes.end()) {
      chosen.attributes[i] = value_from(operation.attributes[i], *given);
    }
  }
  return AnyCall(make_problem(operation, chosen, dtype_from(std::string(dtype))));
}

// JSON: [{"extents", "attributes": {name: value}, "offset", "padding"}].
ffi::String cases_of(int64_t id, const ffi::String& list) {
  return translated([&] {
    const Operation& operation = operation_at(id);
    Json all = Json::array();
    const auto dtype =
        std::ranges::find_if(kAllDTypes, [&](DType d) { return operation.dtypes.has(d); });
    for (const Case& chosen : cases_in(operation, list)) {
      const Problem problem = make_problem(operation, chosen, *dtype);  // make() may set some too
      Json attributes = Json::object();
      for (size_t i = 0; i < operation.attributes.size(); ++i) {
        const Attribute& attribute = operation.attributes[i];
        attributes[std::string(attribute.name)] = to_json(attribute, problem.attributes[i]);
      }
      Json extents = Json::array();
      for (size_t i = 0; i < operation.extent_names.size(); ++i) {
        extents.push_back(chosen.extents[i]);
      }
      all.push_back({{"extents", extents},
                     {"attributes", attributes},
                     {"offset", chosen.offset},
                     {"padding", chosen.padding}});
    }
    return ffi::String(all.dump());
  });
}

// JSON: for each parameter null, or {"dtype", "shape", "strides", "holder": in the memory of which
// parameter it lies, mostly its own, "tolerance": [relative, worst,
// floor] of what is written, "tolerance_in": {"f16": [...]} of rungs that add up in less}.
ffi::String layout_of(int64_t id, const ffi::String& chosen, const ffi::String& dtype) {
  return translated([&] {
    const Operation& operation = operation_at(id);
    const AnyCall call = call_of_case(operation, chosen, dtype);
    Json tensors = Json::array();
    for (size_t i = 0; i < operation.parameters.size(); ++i) {
      const Tensor& tensor = call.problem().tensors[i];
      Json row;
      if (tensor.exists()) {
        const auto rank = static_cast<size_t>(tensor.rank);
        row["dtype"] = to_string(tensor.dtype);
        row["shape"] = std::vector(tensor.shape.begin(), tensor.shape.begin() + rank);
        row["strides"] = std::vector(tensor.strides.begin(), tensor.strides.begin() + rank);
        row["holder"] = holder_of(call.problem(), i);
        if (operation.parameters[i].is_written()) {
          const auto numbers = [](const Tolerance& allowed) {
            return Json{allowed.relative, allowed.worst, allowed.floor};
          };
          const Parameter& output = operation.parameters[i];
          row["tolerance"] = numbers(operation.tolerance(call.problem(), output));
          row["tolerance_in"] = Json::object();
          for (const DType narrow : {DType::kF16, DType::kBf16}) {
            if (operation.tolerance_in == nullptr) break;
            row["tolerance_in"][std::string(to_string(narrow))] =
                numbers(operation.tolerance_in(call.problem(), output, narrow));
          }
        }
      }
      tensors.push_back(std::move(row));
    }
    return ffi::String(tensors.dump());
  });
}

// Fills what the case's call reads, on the host: `tensors` as layout_of() has them, null for the
// rest.
void fill_case(int64_t id, const ffi::String& chosen, const ffi::String& dtype, int64_t seed,
               const ffi::Array<ffi::Optional<ffi::Tensor>>& tensors) {
  translated([&] {
    const Operation& operation = operation_at(id);
    const AnyCall call = call_of_case(operation, chosen, dtype);
    Problem problem = call.problem();
    const size_t count = operation.parameters.size();
    require(tensors.size() == count, count, " parameters, got ", tensors.size(), " tensors");
    for (size_t i = 0; i < count; ++i) {
      const ffi::Optional<ffi::Tensor>& given = tensors[static_cast<int64_t>(i)];
      if (given.has_value()) problem.tensors[i] = to_tensor(*given.value().GetDLTensorPtr());
    }
    for (size_t i = 0; i < count; ++i) {
      if (!operation.parameters[i].is_read() || problem.tensors[i].elements() == 0) continue;
      if (holder_of(problem, i) != i) continue;
      operation.fill(problem, static_cast<int>(i), random_bits(static_cast<uint64_t>(seed), i));
    }
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

void require_device() {
  translated([] { runtime::require_device(); });
}

void check_device(int64_t device) {
  translated([&] { check(static_cast<int>(device)); });
}

void wait_for(int64_t device, int64_t stream) {
  translated([&] { synchronize(static_cast<int>(device), reinterpret_cast<void*>(stream)); });
}

ffi::String verify_rungs(const ffi::String& options) {
  return translated([&] { return ffi::String(verify(std::string(options))); });
}

ffi::String ladder_of(const ffi::String& options) {
  return translated([&] { return ffi::String(ladder(std::string(options))); });
}

ffi::String profile_of(const ffi::String& options) {
  return translated([&] { return ffi::String(profile(std::string(options))); });
}

ffi::String source_of(const ffi::String& options) {
  return translated([&] { return ffi::String(source(std::string(options))); });
}

ffi::String page_of(const ffi::String& options) {
  return translated([&] { return ffi::String(page(std::string(options))); });
}

ffi::String plot_of(const ffi::String& kind, const ffi::String& options) {
  return translated([&] { return ffi::String(plot(std::string(kind), std::string(options))); });
}

ffi::String plot_style() { return std::string(report::plot_style()); }

// A peer from Python on a problem of the bench loop: peer(operation id, JSON of the attributes'
// values, a tensor or None for each parameter, stream).
void call_peer(const ffi::Function& peer, const Problem& problem, Stream stream) {
  const OutgoingCall outgoing(problem, stream);
  const ws_call& call = outgoing.call;
  ffi::Array<ffi::Optional<ffi::Tensor>> tensors;
  for (int32_t i = 0; i < call.tensor_count; ++i) {
    if (call.tensors[i] == nullptr) {
      tensors.push_back(std::nullopt);
    } else {
      tensors.push_back(view_of(*call.tensors[i]));
    }
  }
  Json attributes = Json::array();
  const Operation& operation = *problem.operation;
  for (size_t i = 0; i < operation.attributes.size(); ++i) {
    attributes.push_back(to_json(operation.attributes[i], problem.attributes[i]));
  }
  try {
    peer(call.operation, attributes.dump(), tensors, reinterpret_cast<int64_t>(call.stream));
  } catch (const ffi::Error& error) {
    if (error.kind() == "ValueError") throw InvalidArgument(error.message());
    throw Error(error.what());
  }
}

ffi::String bench_rungs(const ffi::String& options, const ffi::Array<ffi::String>& names,
                        const ffi::Array<ffi::Function>& peers, int64_t stream,
                        const ffi::Optional<ffi::Function>& done) {
  return translated([&] {
    std::vector<harness::CallbackPeer> callbacks;
    for (int64_t i = 0; i < static_cast<int64_t>(peers.size()); ++i) {
      callbacks.push_back(
          {std::string(names[i]),
           [peer = peers[i]](const Problem& problem, Stream s) { call_peer(peer, problem, s); }});
    }
    const auto tell = [&](const std::string& report) {
      if (done.has_value()) (*done)(ffi::String(report));
    };
    return ffi::String(
        bench(std::string(options), std::move(callbacks), reinterpret_cast<Stream>(stream), tell));
  });
}

}  // namespace
}  // namespace ws::binding

TVM_FFI_DLL_EXPORT_TYPED_FUNC(catalogue, ws::binding::catalogue)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(resolve, ws::binding::resolve_name)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(function_of, ws::binding::function_of)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(use_torch, ws::binding::use_torch)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(quick_call_of, ws::binding::quick_call_of)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(object_of, ws::binding::object_of)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(rethrow, ws::binding::rethrow)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(infer_of, ws::binding::infer_of)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(workspace_of, ws::binding::workspace_bytes_of)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(reason_of, ws::binding::reason_of)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(choice_of, ws::binding::choice_of)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(flops_of, ws::binding::flops_of)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(view_of_memory, ws::binding::view_of_memory)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(cases_of, ws::binding::cases_of)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(layout_of, ws::binding::layout_of)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fill_case, ws::binding::fill_case)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(require_device, ws::binding::require_device)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(check, ws::binding::check_device)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(synchronize, ws::binding::wait_for)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(verify, ws::binding::verify_rungs)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(bench, ws::binding::bench_rungs)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(ladder, ws::binding::ladder_of)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(profile, ws::binding::profile_of)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(source, ws::binding::source_of)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(page, ws::binding::page_of)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(plot, ws::binding::plot_of)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(plot_style, ws::binding::plot_style)
