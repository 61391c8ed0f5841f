// A product in double precision and how far one in f32 may be from it: for the references of this
// family and of others whose operations contain a product. Host code, which nvcc never reads.
#pragma once

#include "catalogue/tolerance.hpp"
#include "kernels/gemm/operations.hpp"

namespace ws::gemm {

// Whether they are batches of matrices that can be multiplied, of one dtype of kFloats; else
// InvalidArgument, which begins with the operation's name.
void check_batches(std::string_view name, const Tensor& a, const Tensor& b);

// Rows [slice.first, slice.last) of A B, to c: n elements a row.
void reference_product(DType dtype, const Matrix& a, const Matrix& b, int64_t n, int64_t k,
                       Slice slice, double* c);

}  // namespace ws::gemm
