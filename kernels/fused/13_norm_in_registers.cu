// The row of 13_norm_in_registers.cuh: a unit of its own, so that it compiles beside the others.
#include "kernels/fused/13_norm_in_registers.cuh"

namespace ws::fused {

using ShapesChosen = NormShapes<NormShape<32, 4, 6>, NormShape<64, 4, 12>, NormShape<128, 4, 6>,
                                NormShape<256, 4, 3>, NormShape<512, 4, 1>>;

extern const Rung kNormInRegisters;
const Rung kNormInRegisters =
    rung_of<NormInRegisters<ShapesChosen>, BiasResidualLayerNorm, RmsNormQuantized>({
        .name = "norm_in_registers",
        .from = "norm_any_layout",
        .idea =
            "the row in registers from sum to output; its scale from the reduction of its squares",
    });

}  // namespace ws::fused
