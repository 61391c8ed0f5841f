// cuBLAS, for the families whose peer it is.
#pragma once

#include "catalogue/catalogue.hpp"
#include "catalogue/peers/library.hpp"

#if !defined(WS_EMULATED) && __has_include(<cublas_v2.h>)
#include <cublas_v2.h>
#define WS_HAS_CUBLAS
#endif

namespace ws::peers {

LibraryStatus cublas_status();

// Why there is no cuBLAS; empty where there is.
Reason cublas_missing();

#ifdef WS_HAS_CUBLAS
const Library& cublas();

// Throws with cuBLAS's own words; `what` is the function that failed.
void check_cublas(cublasStatus_t status, const char* what);

// One of the library's functions, looked up once:
//   static const auto dot = cublas_function<decltype(cublasDotEx_64)>("cublasDotEx_64")
template <class Function>
Function* cublas_function(const char* name) {
  return cublas().function<Function>(name);
}

// What a call's Context has to bring: memory of cuBLAS's own would be allocated while a graph is
// captured, and be part of it.
inline constexpr size_t kCublasWorkspace = size_t{4} << 20;

// The current device's handle, for the life of the process, set to the call's stream and workspace.
// Scalars, results among them, are in device memory unless said otherwise: nothing waits for them.
cublasHandle_t cublas_handle(const Context& context,
                             cublasPointerMode_t scalars = CUBLAS_POINTER_MODE_DEVICE);
#endif

}  // namespace ws::peers
