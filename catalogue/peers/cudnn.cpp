#include "catalogue/peers/cudnn.hpp"

#include "warpsmith/runtime.hpp"

#ifdef WS_HAS_CUDNN
#include <array>
#include <map>
#include <mutex>
#endif

namespace ws::peers {

#ifndef WS_HAS_CUDNN

namespace {
constexpr std::string_view kWhy = runtime::kEmulated ? "needs a GPU: this is the emulated build"
                                                     : "was not built: there was no cudnn.h";
}  // namespace

LibraryStatus cudnn_status() { return {"cuDNN", false, std::string(kWhy)}; }
Reason cudnn_supports(const Problem& /*problem*/) { return std::string(kWhy); }

#else

const Library& cudnn() {
  static const Library kLibrary{"libcudnn.so.9", "libcudnn.so"};
  return kLibrary;
}

void check_cudnn(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) [[likely]]
    return;
  static const auto error_string =
      cudnn_function<decltype(cudnnGetErrorString)>("cudnnGetErrorString");
  throw Error(concatenate(what, ": ", error_string(status)));
}

cudnnHandle_t cudnn_handle(Stream stream) {
  static const auto create = cudnn_function<decltype(cudnnCreate)>("cudnnCreate");
  static const auto set_stream = cudnn_function<decltype(cudnnSetStream)>("cudnnSetStream");
  static std::mutex mutex;
  static std::map<int, cudnnHandle_t> handles;
  const int device = runtime::current_device();
  const std::lock_guard lock(mutex);
  cudnnHandle_t& mine = handles[device];
  if (mine == nullptr) check_cudnn(create(&mine), "cudnnCreate");
  check_cudnn(set_stream(mine, stream), "cudnnSetStream");
  return mine;
}

cudnnTensorDescriptor_t cudnn_descriptor(DType dtype, int64_t n, int64_t c, int64_t h, int64_t w) {
  static const auto create =
      cudnn_function<decltype(cudnnCreateTensorDescriptor)>("cudnnCreateTensorDescriptor");
  static const auto set =
      cudnn_function<decltype(cudnnSetTensor4dDescriptor)>("cudnnSetTensor4dDescriptor");
  using Key = std::pair<DType, std::array<int64_t, 4>>;
  static thread_local std::map<Key, cudnnTensorDescriptor_t> made;
  cudnnTensorDescriptor_t& descriptor = made[{dtype, {n, c, h, w}}];
  if (descriptor == nullptr) {
    const cudnnDataType_t type = dtype == DType::kF32   ? CUDNN_DATA_FLOAT
                                 : dtype == DType::kF16 ? CUDNN_DATA_HALF
                                                        : CUDNN_DATA_BFLOAT16;
    check_cudnn(create(&descriptor), "cudnnCreateTensorDescriptor");
    check_cudnn(set(descriptor, CUDNN_TENSOR_NCHW, type, static_cast<int>(n), static_cast<int>(c),
                    static_cast<int>(h), static_cast<int>(w)),
                "cudnnSetTensor4dDescriptor");
  }
  return descriptor;
}

LibraryStatus cudnn_status() {
  if (!cudnn().found()) return {"cuDNN", false, cudnn().missing()};
  static const auto version = cudnn_function<decltype(cudnnGetVersion)>("cudnnGetVersion");
  return {"cuDNN", true, concatenate(cudnn().path(), ", version ", version())};
}

Reason cudnn_supports(const Problem& problem) {
  if (!cudnn().found()) return cudnn().missing();
  for (const Tensor& tensor : problem.tensors) {
    if (!tensor.exists()) continue;
    if (!tensor.contiguous()) return concatenate("takes contiguous tensors, not ", tensor);
    if (tensor.elements() == 0) return "takes no empty tensor";
    if (tensor.elements() > 0x7FFFFFFF) {
      return concatenate("counts in 32 bits, not the ", tensor.elements(), " elements of ", tensor);
    }
  }
  return {};
}

#endif

namespace {
const LibraryReport kReport(cudnn_status);
}

}  // namespace ws::peers
