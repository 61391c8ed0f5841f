#include "kernels/linear/08_three_tf32.cuh"

namespace ws::linear {

extern const Rung kThreeTf32;
constinit const Rung kThreeTf32 = rung_of<ThreeTf32, DTypes{DType::kF32}, Addmm, GemmAccumulate>({
    .name = "three_tf32",
    .from = "warp_tile",
    .idea = "f32 as a sum of two TF32 numbers, on tensor cores, with the epilogue in registers",
    .arch = Arch::kSm90a,
});

}  // namespace ws::linear
