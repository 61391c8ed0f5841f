#include "kernels/linear/18_tf32.cuh"

namespace ws::linear {

extern const Rung kTf32;
constinit const Rung kTf32 = rung_of<Tf32, DTypes{DType::kF32}, Addmm>({
    .name = "tf32",
    .from = "three_tf32",
    .idea = "one product of TF32 numbers for three, where the call allows it",
    .arch = Arch::kSm90a,
});

}  // namespace ws::linear
