#include "kernels/gemm/40_wgmma_tf32.cuh"

namespace ws::gemm {

extern const Rung kWgmmaTf32;
constinit const Rung kWgmmaTf32 = rung_of<WgmmaTf32, DTypes{DType::kF32}, Gemm>({
    .name = "wgmma_tf32",
    .from = "warp_specialized",
    .idea = "f32 as tf32 on the tensor cores; operands that are not K-major are transposed first",
    .arch = Arch::kSm90a,
});

void WgmmaTf32::run_in(Tf32Tiles tiles, const Call& call, const Context& context) {
  run_into<TensorOutput<float>, PlainOutput<float>>(tiles, call, context);
}

double wgmma_tf32_time(const Call& call) { return WgmmaTf32::time(call); }

}  // namespace ws::gemm
