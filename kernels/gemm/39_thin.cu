#include "kernels/gemm/39_thin.cuh"

namespace ws::gemm {

extern const Rung kThin;
constinit const Rung kThin = rung_of<Thin, Gemm>({
    .name = "thin",
    .from = "naive",
    .idea = "few rows or columns: the long operand is read once, as in gemv, for all of them",
});

}  // namespace ws::gemm
