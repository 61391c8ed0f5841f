// The row of 16_norm_elements.cuh: a unit of its own, so that it compiles beside the others.
#include "kernels/fused/16_norm_elements.cuh"

namespace ws::fused {

extern const Rung kNormElements;
const Rung kNormElements = rung_of<NormElements, BiasResidualLayerNorm, RmsNormQuantized>({
    .name = "norm_elements",
    .from = "norm_in_registers",
    .idea = "any layout in one pass: the row in registers, element by element",
});

}  // namespace ws::fused
