#include "catalogue/peers/cublas.hpp"

#include "warpsmith/runtime.hpp"

#ifdef WS_HAS_CUBLAS
#include <map>
#include <mutex>
#endif

namespace ws::peers {

#ifndef WS_HAS_CUBLAS

namespace {
constexpr std::string_view kWhy = runtime::kEmulated
                                      ? "needs a GPU: this is the emulated build"
                                      : "was not built: the toolkit had no cublas_v2.h";
}  // namespace

LibraryStatus cublas_status() { return {"cuBLAS", false, std::string(kWhy)}; }
Reason cublas_missing() { return std::string(kWhy); }

#else

const Library& cublas() {
  static const Library kLibrary{"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
  return kLibrary;
}

void check_cublas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  static const auto name = cublas_function<decltype(cublasGetStatusName)>("cublasGetStatusName");
  static const auto words =
      cublas_function<decltype(cublasGetStatusString)>("cublasGetStatusString");
  throw Error(concatenate(what, ": ", name(status), ": ", words(status)));
}

cublasHandle_t cublas_handle(const Context& context, cublasPointerMode_t scalars) {
  static const auto create = cublas_function<decltype(cublasCreate_v2)>("cublasCreate_v2");
  static const auto set_mode =
      cublas_function<decltype(cublasSetPointerMode_v2)>("cublasSetPointerMode_v2");
  static const auto set_stream =
      cublas_function<decltype(cublasSetStream_v2)>("cublasSetStream_v2");
  static const auto set_workspace =
      cublas_function<decltype(cublasSetWorkspace_v2)>("cublasSetWorkspace_v2");
  static std::mutex mutex;
  static std::map<int, cublasHandle_t> handles;
  const int device = runtime::current_device();
  const std::lock_guard lock(mutex);
  cublasHandle_t& mine = handles[device];
  if (mine == nullptr) check_cublas(create(&mine), "cublasCreate");
  check_cublas(set_mode(mine, scalars), "cublasSetPointerMode");
  // In this order: a stream brings back the workspace of cuBLAS's own.
  check_cublas(set_stream(mine, context.stream), "cublasSetStream");
  check_cublas(set_workspace(mine, context.workspace, kCublasWorkspace), "cublasSetWorkspace");
  return mine;
}

LibraryStatus cublas_status() {
  if (!cublas().found()) return {"cuBLAS", false, cublas().missing()};
  static const auto property = cublas_function<decltype(cublasGetProperty)>("cublasGetProperty");
  const auto part = [](libraryPropertyType type) {
    int value = 0;
    check_cublas(property(type, &value), "cublasGetProperty");
    return value;
  };
  return {"cuBLAS", true,
          concatenate(cublas().path(), ", version ", part(MAJOR_VERSION), ".", part(MINOR_VERSION),
                      ".", part(PATCH_LEVEL))};
}

Reason cublas_missing() { return cublas().found() ? Reason{} : cublas().missing(); }

#endif

namespace {
const LibraryReport kReport(cublas_status);
}

}  // namespace ws::peers
