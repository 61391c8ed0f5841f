// The row of 13_norm_in_registers.cuh: a unit of its own, so that it compiles beside the others.
#include "kernels/fused/13_norm_in_registers.cuh"

namespace ws::fused {

// H200 2026-11-30, % of copy: f32 16384 x 4096 with residual 100.2, bf16 97.9.
using ShapesChosen =
    row::ByCapacity<NormShape<32, 4, 6>, NormShape<64, 4, 12>, NormShape<128, 4, 6>,
                    NormShape<256, 4, 3>, NormShape<512, 4, 1>>;
// The same with a given scale and no residual: f32 97.9, bf16 97.4.
using ShapesOfFew = row::ByCapacity<NormShape<32, 4, 6>, NormShape<32, 8, 5>, NormShape<64, 8, 12>,
                                    NormShape<128, 8, 6>, NormShape<256, 8, 3>>;

extern const Rung kNormInRegisters;
const Rung kNormInRegisters =
    rung_of<NormInRegisters<ShapesChosen, ShapesOfFew>, BiasResidualLayerNorm, RmsNormQuantized>({
        .name = "norm_in_registers",
        .from = "norm_any_layout",
        .idea =
            "the row in registers from sum to output; its scale from the reduction of its squares",
    });

}  // namespace ws::fused
