// What a library was built from and with: warpsmith.build_info().
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

#include "catalogue/catalogue_json.hpp"
#include "harness/machine.hpp"
#include "warpsmith/runtime.hpp"

namespace ws::binding {
namespace {

// JSON: {"revision", "compiler", and of the CUDA build "nvcc", "cuda", "architectures"}.
tvm::ffi::String build_info() {
  Json info = {{"revision", harness::revision()}, {"compiler", WS_CXX}};
  if constexpr (!runtime::kEmulated) {
    info["nvcc"] = WS_NVCC;
    info["cuda"] = runtime::runtime_version();
    info["architectures"] = WS_ARCHITECTURES;
  }
  return info.dump();
}

}  // namespace
}  // namespace ws::binding

TVM_FFI_DLL_EXPORT_TYPED_FUNC(build_info, ws::binding::build_info)
