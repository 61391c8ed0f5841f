// cuBLASLt as a peer of gemm.
#pragma once

#include "catalogue/catalogue.hpp"
#include "catalogue/peers/library.hpp"

namespace ws::peers {

LibraryStatus cublaslt_status();

// C[M, N] = op(A) op(B) for a problem with tensors A, B, C and attribute 0 the layout: 0 nn, 1 nt,
// 2 tn, 3 tt, where t means stored transposed. f32 (without TF32), f16 and bf16, f32 accumulation;
// rows contiguous, at any stride. The algorithm is the heuristic's first, as in torch; a plan is
// made once per shape and thread.
Reason cublaslt_gemm_supports(const Problem& problem);
size_t cublaslt_gemm_workspace(const Problem& problem);
void cublaslt_gemm_run(const Problem& problem, const Context& context);

inline constexpr Peer kCublasLt = {"cublasLt", cublaslt_gemm_supports, cublaslt_gemm_workspace,
                                   cublaslt_gemm_run};

}  // namespace ws::peers
