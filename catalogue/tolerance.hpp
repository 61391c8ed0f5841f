// How far results in floating point may be from the true ones: for references of products and sums.
#pragma once

#include "catalogue/catalogue.hpp"

namespace ws {

// Half the distance of two neighbours around 1: what rounding once costs.
double rounding_error(DType dtype);

// How far the f32 sum of `k` products is from the true one, in units of its size, which is sqrt(k)
// for factors of size 1: it errs by its last bits, which tensor cores cut off (a bias that grows
// with k) where FMAs round (noise that grows with its root).
double accumulation_error(int64_t k);

// Of such sums, rounded once to `dtype`.
Tolerance product_tolerance(DType dtype, int64_t k);

}  // namespace ws
