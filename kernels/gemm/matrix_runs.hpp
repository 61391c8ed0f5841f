// A matrix whose rows start anywhere, as kernels read it that load pieces of 16 bytes.
#pragma once

#include <algorithm>

#include "kernels/gemm/operations.hpp"
#include "warpsmith/thread/divide.hpp"

#if WS_DEVICE_CODE
namespace ws::gemm {

// In runs. Pieces that hang over a run's end are read where they are still the matrix's: not in the
// first `heads` runs, before their first element, nor behind the last of those from `tails` on.
template <class T>
struct Runs {
  const T* data = nullptr;
  int64_t leading = 0;
  int count = 0;
  int length = 0;
  int heads = 0;
  int tails = 0;

  Runs() = default;
  explicit Runs(const Matrix& matrix)
      : data(matrix.as<const T>()),
        leading(matrix.leading),
        count(static_cast<int>(matrix.runs)),
        length(static_cast<int>(matrix.length)) {
    constexpr int64_t kOver = 16 / sizeof(T) - 1;
    const int64_t strict =
        leading > 0 ? std::min(divide_up(kOver, leading), matrix.runs) : matrix.runs;
    heads = static_cast<int>(strict);
    tails = static_cast<int>(matrix.runs - strict);
  }
};

}  // namespace ws::gemm
#endif
