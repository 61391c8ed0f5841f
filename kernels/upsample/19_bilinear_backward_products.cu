#include "kernels/upsample/19_bilinear_backward_products.cuh"

namespace ws::upsample {

extern const Rung kBilinearBackwardProducts;
constinit const Rung kBilinearBackwardProducts =
    rung_of<BilinearBackwardProducts, kHalves, UpsampleBilinear2dBackward>({
        .name = "bilinear_backward_products",
        .from = "bilinear_backward_fours",
        .idea = "two products of the tensor cores by banded weights, rows fetched by other warps",
        .arch = Arch::kSm90,
    });

}  // namespace ws::upsample
