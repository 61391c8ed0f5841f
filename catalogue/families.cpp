// The one list of families.
#include "catalogue/catalogue.hpp"

namespace ws {

#if __has_include("kernels/elementwise/elementwise.cu")
#define WS_HAS_ELEMENTWISE
namespace elementwise {
extern const Family kFamily;
}
#endif
#if __has_include("kernels/softmax/softmax.cu")
#define WS_HAS_SOFTMAX
namespace softmax {
extern const Family kFamily;
}
#endif
#if __has_include("kernels/gemm/gemm.cu")
#define WS_HAS_GEMM
namespace gemm {
extern const Family kFamily;
}
#endif

std::span<const Family* const> families() {
  static const std::vector<const Family*> kFamilies = {
#ifdef WS_HAS_ELEMENTWISE
      &elementwise::kFamily,
#endif
#ifdef WS_HAS_SOFTMAX
      &softmax::kFamily,
#endif
#ifdef WS_HAS_GEMM
      &gemm::kFamily,
#endif
  };
  return kFamilies;
}

}  // namespace ws
