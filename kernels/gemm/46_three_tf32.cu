#include "kernels/gemm/46_three_tf32.cuh"

namespace ws::gemm {

void ThreeTf32::run_in(Tiles tiles, const Call& call, const Context& context) {
  run_into<TensorOutput<float>, PlainOutput<float>>(tiles, call, context);
}

extern const Rung kThreeTf32;
constinit const Rung kThreeTf32 = rung_of<ThreeTf32, DTypes{DType::kF32}, Gemm>({
    .name = "three_tf32",
    .from = "wgmma_tf32",
    .idea = "f32 as a sum of two TF32 numbers: three products have f32's accuracy",
    .arch = Arch::kSm90a,
});

double three_tf32_time(const Call& call) { return ThreeTf32::time(call); }

}  // namespace ws::gemm
