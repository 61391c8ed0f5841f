// Tensors of rows for cases to verify.
#pragma once

#include <algorithm>

#include "catalogue/catalogue.hpp"

namespace ws {

// Extents are rows and columns, then what makes a tensor awkward: `outer` > 0 puts a dimension
// before the rows that lies between them in memory (a transposed tensor); `step` > 1 leaves gaps
// between elements.
inline Tensor rows_tensor(const Case& chosen, DType dtype) {
  const int64_t rows = chosen.extents[0];
  const int64_t columns = chosen.extents[1];
  const int64_t outer = chosen.extents[2];
  const int64_t step = std::max<int64_t>(chosen.extents[3], 1);
  const int64_t pitch = columns * step + chosen.padding;
  Tensor tensor;
  if (outer > 0) {
    tensor = Tensor::dense(dtype, {outer, rows, columns});
    tensor.strides = {pitch, pitch * outer, step};
  } else {
    tensor = Tensor::dense(dtype, {rows, columns});
    tensor.strides = {pitch, step};
  }
  return tensor;
}

}  // namespace ws
