// The one list of families: a new one adds its two lines.
#include <array>

#include "catalogue/catalogue.hpp"

namespace ws {

namespace lessons {
extern const Family kFamily;
}
namespace elementwise {
extern const Family kFamily;
}
namespace fused {
extern const Family kFamily;
}
namespace softmax {
extern const Family kFamily;
}
namespace gemm {
extern const Family kFamily;
}
namespace linear {
extern const Family kFamily;
}
namespace grouped_gemm {
extern const Family kFamily;
}
namespace scaled_gemm {
extern const Family kFamily;
}
namespace gemv {
extern const Family kFamily;
}
namespace quantized {
extern const Family kFamily;
}
namespace norm {
extern const Family kFamily;
}
namespace batch_norm {
extern const Family kFamily;
}
namespace reduce {
extern const Family kFamily;
}
namespace attention {
extern const Family kFamily;
}
namespace linear_attention {
extern const Family kFamily;
}
namespace cross_entropy {
extern const Family kFamily;
}
namespace scan {
extern const Family kFamily;
}
namespace selective_scan {
extern const Family kFamily;
}
namespace wkv {
extern const Family kFamily;
}
namespace histogram {
extern const Family kFamily;
}
namespace topk {
extern const Family kFamily;
}
namespace transpose {
extern const Family kFamily;
}
namespace embedding {
extern const Family kFamily;
}
namespace index_add {
extern const Family kFamily;
}
namespace rope {
extern const Family kFamily;
}
namespace upsample {
extern const Family kFamily;
}
namespace spmv {
extern const Family kFamily;
}
namespace nms {
extern const Family kFamily;
}
namespace optimizer {
extern const Family kFamily;
}

std::span<const Family* const> families() {
  static constexpr std::array kFamilies = {
      &lessons::kFamily,       &elementwise::kFamily, &fused::kFamily,
      &softmax::kFamily,       &gemm::kFamily,        &linear::kFamily,
      &grouped_gemm::kFamily,  &scaled_gemm::kFamily, &gemv::kFamily,
      &quantized::kFamily,     &norm::kFamily,        &batch_norm::kFamily,
      &reduce::kFamily,        &attention::kFamily,   &linear_attention::kFamily,
      &cross_entropy::kFamily, &scan::kFamily,        &selective_scan::kFamily,
      &wkv::kFamily,           &histogram::kFamily,   &topk::kFamily,
      &transpose::kFamily,     &embedding::kFamily,   &index_add::kFamily,
      &rope::kFamily,          &upsample::kFamily,    &spmv::kFamily,
      &nms::kFamily,           &optimizer::kFamily,
  };
  return kFamilies;
}

}  // namespace ws
