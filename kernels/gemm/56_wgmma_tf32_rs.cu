#include "kernels/gemm/56_wgmma_tf32_rs.cuh"

namespace ws::gemm {

extern const Rung kWgmmaTf32Rs;
constinit const Rung kWgmmaTf32Rs = rung_of<WgmmaTf32Rs, DTypes{DType::kF32}, Gemm>({
    .name = "wgmma_tf32_rs",
    .from = "wgmma_tf32",
    .idea = "lanes bring the operand that lies across K in registers: no transposed copy of it",
    .arch = Arch::kSm90a,
});

double wgmma_tf32_rs_time(const Call& call) {
  Why nobody;
  return WgmmaTf32Rs::supports(call, nobody) ? WgmmaTf32Rs::time(call) : kNever;
}

}  // namespace ws::gemm
