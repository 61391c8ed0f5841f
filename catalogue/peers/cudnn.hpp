// cuDNN, for the families whose peer it is.
#pragma once

#include "catalogue/catalogue.hpp"
#include "catalogue/peers/library.hpp"

#if !defined(WS_EMULATED) && __has_include(<cudnn.h>)
#include <cudnn.h>
#define WS_HAS_CUDNN
#endif

namespace ws::peers {

LibraryStatus cudnn_status();

#ifdef WS_HAS_CUDNN
const Library& cudnn();

// Throws with cuDNN's own words; `what` is the function that failed.
void check_cudnn(cudnnStatus_t status, const char* what);

// One of the library's functions, looked up once:
//   static const auto forward =
//   cudnn_function<decltype(cudnnSoftmaxForward)>("cudnnSoftmaxForward")
template <class Function>
Function* cudnn_function(const char* name) {
  return cudnn().function<Function>(name);
}

// The current device's handle, for the life of the process, set to the stream.
cudnnHandle_t cudnn_handle(Stream stream);

// A dense tensor [n, c, h, w] of f32, f16 or bf16. Descriptors are remembered for each thread and
// live as long as it does.
cudnnTensorDescriptor_t cudnn_descriptor(DType dtype, int64_t n, int64_t c, int64_t h = 1,
                                         int64_t w = 1);
#endif

// Why cuDNN takes no tensors such as these, of any operation: it is not there, or they are not
// dense, empty, or longer than it counts. Empty where it may.
Reason cudnn_supports(const Problem& problem);

}  // namespace ws::peers
