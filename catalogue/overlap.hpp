// Whether tensors share memory.
#pragma once

#include "catalogue/problem.hpp"

namespace ws {

// Whether some element of one is one of the other's. Tensors that interleave without meeting
// (columns of one matrix) do not; where strides are too entangled to tell, they do.
bool overlap(const Tensor& a, const Tensor& b);

// Whether two elements of the tensor share an address, or may.
bool overlaps_itself(const Tensor& tensor);

// Whether both are the same elements in the same order.
bool coincide(const Tensor& a, const Tensor& b);

}  // namespace ws
