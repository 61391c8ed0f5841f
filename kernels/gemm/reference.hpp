// A product in double precision and how far one in f32 may be from it: for the references of this
// family and of others whose operations contain a product. Host code, which nvcc never reads.
#pragma once

#include "kernels/gemm/operations.hpp"

namespace ws::gemm {

// Whether they are batches of matrices that can be multiplied, of one dtype of kFloats; else
// InvalidArgument, which begins with the operation's name.
void check_batches(std::string_view name, const Tensor& a, const Tensor& b);

// Rows [slice.first, slice.last) of A B, to c: n elements a row.
void reference_product(DType dtype, const Matrix& a, const Matrix& b, int64_t n, int64_t k,
                       Slice slice, double* c);

// Half the distance of two neighbours around 1: what rounding once costs.
double rounding_error(DType dtype);

// How far the f32 sum of `k` products is from the true one, in units of its size, which is sqrt(k)
// for factors of size 1: it errs by its last bits, which tensor cores cut off (a bias that grows
// with k) where FMAs round (noise that grows with its root).
double accumulation_error(int64_t k);

// Of such sums, rounded once to `dtype`.
Tolerance product_tolerance(DType dtype, int64_t k);

}  // namespace ws::gemm
