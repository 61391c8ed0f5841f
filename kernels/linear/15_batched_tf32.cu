#include "kernels/linear/15_batched_tf32.cuh"

namespace ws::linear {

extern const Rung kBatchedThreeTf32;
constinit const Rung kBatchedThreeTf32 = rung_of<BatchedThreeTf32, DTypes{DType::kF32}, Baddbmm>({
    .name = "batched_three_tf32",
    .from = "three_tf32",
    .idea = "the products of a batch in one line, with the epilogue in registers",
    .arch = Arch::kSm90a,
    .file = "15_batched_tf32.cuh",
});

extern const Rung kBatchedThreeTf32Rs;
constinit const Rung kBatchedThreeTf32Rs =
    rung_of<BatchedThreeTf32Rs, DTypes{DType::kF32}, Baddbmm>({
        .name = "batched_three_tf32_rs",
        .from = "batched_three_tf32",
        .idea = "low parts of the factors made on the way: f32 of small products",
        .arch = Arch::kSm90a,
        .file = "15_batched_tf32.cuh",
    });

extern const Rung kBatchedTf32;
constinit const Rung kBatchedTf32 = rung_of<BatchedTf32, DTypes{DType::kF32}, Baddbmm>({
    .name = "batched_tf32",
    .from = "batched_three_tf32",
    .idea = "one product of TF32 numbers for three, where the call allows it",
    .arch = Arch::kSm90a,
});

}  // namespace ws::linear
