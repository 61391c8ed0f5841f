#include "catalogue/peers/cudnn.hpp"

#if !defined(WS_EMULATED) && __has_include(<cudnn.h>)
#include <cudnn.h>

#include <map>
#include <mutex>
#define WS_HAS_CUDNN
#endif

namespace ws::peers {

#ifndef WS_HAS_CUDNN

namespace {
constexpr std::string_view kWhy =
#ifdef WS_EMULATED
    "needs a GPU: this is the emulated build";
#else
    "was not built: there was no cudnn.h";
#endif
}  // namespace

LibraryStatus cudnn_status() { return {"cuDNN", false, std::string(kWhy)}; }
Reason cudnn_softmax_supports(const Problem&) { return std::string(kWhy); }
void cudnn_softmax_run(const Problem&, const Context&) { throw Error(std::string(kWhy)); }

#else

namespace {

struct Functions {
  Library library{"libcudnn.so.9", "libcudnn.so"};
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnGetVersion) version = nullptr;
  decltype(&cudnnGetErrorString) error_string = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnCreateTensorDescriptor) descriptor_create = nullptr;
  decltype(&cudnnSetTensor4dDescriptor) descriptor_set = nullptr;
  decltype(&cudnnSoftmaxForward) forward = nullptr;
  decltype(&cudnnSoftmaxBackward) backward = nullptr;

  Functions() {
    if (!library.found()) return;
    const auto load = [&](auto& target, const char* name) {
      target =
          library.function<std::remove_pointer_t<std::remove_reference_t<decltype(target)>>>(name);
    };
    load(create, "cudnnCreate");
    load(version, "cudnnGetVersion");
    load(error_string, "cudnnGetErrorString");
    load(set_stream, "cudnnSetStream");
    load(descriptor_create, "cudnnCreateTensorDescriptor");
    load(descriptor_set, "cudnnSetTensor4dDescriptor");
    load(forward, "cudnnSoftmaxForward");
    load(backward, "cudnnSoftmaxBackward");
  }
};

const Functions& functions() {
  static const Functions kFunctions;
  return kFunctions;
}

void check_status(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS) {
    throw Error(concatenate(what, ": ", functions().error_string(status)));
  }
}

cudnnHandle_t handle() {
  static std::mutex mutex;
  static std::map<int, cudnnHandle_t> handles;
  int device = 0;
  detail::check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  const std::lock_guard lock(mutex);
  cudnnHandle_t& mine = handles[device];
  if (mine == nullptr) check_status(functions().create(&mine), "cudnnCreate");
  return mine;
}

int64_t columns_of(const Problem& problem) {
  const Tensor& x = problem.tensor(0);
  return x.rank == 0 ? 1 : x.shape[static_cast<size_t>(x.rank - 1)];
}

// Rows are images of `columns` channels of one pixel: softmax of an instance is softmax of a row.
cudnnTensorDescriptor_t descriptor_of(const Problem& problem) {
  struct Remembered {
    cudnnTensorDescriptor_t descriptor = nullptr;
    DType dtype{};
    int64_t rows = -1;
    int64_t columns = -1;
  };
  static thread_local Remembered last;
  const Tensor& x = problem.tensor(0);
  const int64_t columns = columns_of(problem);
  const int64_t rows = x.elements() / columns;
  if (last.descriptor == nullptr) {
    check_status(functions().descriptor_create(&last.descriptor), "cudnnCreateTensorDescriptor");
  }
  if (last.dtype != x.dtype || last.rows != rows || last.columns != columns) {
    const cudnnDataType_t type = x.dtype == DType::kF32   ? CUDNN_DATA_FLOAT
                                 : x.dtype == DType::kF16 ? CUDNN_DATA_HALF
                                                          : CUDNN_DATA_BFLOAT16;
    check_status(
        functions().descriptor_set(last.descriptor, CUDNN_TENSOR_NCHW, type, static_cast<int>(rows),
                                   static_cast<int>(columns), 1, 1),
        "cudnnSetTensor4dDescriptor");
    last = {last.descriptor, x.dtype, rows, columns};
  }
  return last.descriptor;
}

}  // namespace

LibraryStatus cudnn_status() {
  const Library& library = functions().library;
  if (!library.found()) return {"cuDNN", false, library.missing()};
  return {"cuDNN", true, concatenate(library.path(), ", version ", functions().version())};
}

Reason cudnn_softmax_supports(const Problem& problem) {
  if (!functions().library.found()) return functions().library.missing();
  const Tensor& x = problem.tensor(0);
  if (!kFloats.has(x.dtype))
    return concatenate("takes f32, f16 and bf16, not ", to_string(x.dtype));
  for (int i = 0; i < problem.tensor_count; ++i) {
    if (!problem.tensor(i).contiguous()) {
      return concatenate("takes contiguous tensors, not ", problem.tensor(i).describe());
    }
  }
  if (x.elements() == 0) return "takes no empty tensor";
  if (x.elements() > 0x7FFFFFFF) {
    return concatenate("counts in 32 bits, not the ", x.elements(), " elements of ", x.describe());
  }
  return {};
}

void cudnn_softmax_run(const Problem& problem, const Context& context) {
  const Functions& f = functions();
  const cudnnTensorDescriptor_t descriptor = descriptor_of(problem);
  const float one = 1;
  const float zero = 0;
  const std::string_view name = problem.operation->name;
  const cudnnSoftmaxAlgorithm_t algorithm =
      name.starts_with("log_") ? CUDNN_SOFTMAX_LOG : CUDNN_SOFTMAX_ACCURATE;
  check_status(f.set_stream(handle(), context.stream), "cudnnSetStream");
  if (name.ends_with("_backward")) {
    check_status(f.backward(handle(), algorithm, CUDNN_SOFTMAX_MODE_INSTANCE, &one, descriptor,
                            problem.tensor(1).data, descriptor, problem.tensor(0).data, &zero,
                            descriptor, problem.tensor(2).data),
                 "cudnnSoftmaxBackward");
  } else {
    check_status(f.forward(handle(), algorithm, CUDNN_SOFTMAX_MODE_INSTANCE, &one, descriptor,
                           problem.tensor(0).data, &zero, descriptor, problem.tensor(1).data),
                 "cudnnSoftmaxForward");
  }
}

#endif

namespace {
const LibraryReport kReport(cudnn_status);
}

}  // namespace ws::peers
