// The row of backward_in_registers, with its policy.
#include "kernels/norm/12_backward_in_registers.cuh"

namespace ws::norm {
namespace {

// Elements of a lane are what its shuffles are shared by: as many as there are registers for the
// sums of. H200 2026-11-21, layer_norm, % of copy in f32 / bf16: N = 256 96 / 92, 1024 - / 91.
struct Measured {
  static constexpr int64_t kMostBytes = 2048;
  template <class F>
  static void with_shape(int64_t bytes, const F& f) {
    if (bytes <= 128) return f.template operator()<LanesShape<8, 1, 4, 4>>();
    if (bytes <= 512) return f.template operator()<LanesShape<16, 2, 3, 5>>();
    if (bytes <= 1024) return f.template operator()<LanesShape<16, 4, 4, 3>>();
    f.template operator()<LanesShape<32, 4, 4, 3>>();
  }
};

}  // namespace

extern const Rung kBackwardInRegisters;
const Rung kBackwardInRegisters =
    rung_of<BackwardInRegisters<Measured>, LayerNormBackward, RmsNormBackward>({
        .name = "backward_in_registers",
        .from = "backward_any_layout",
        .idea = "lanes of a warp a row, the columns' sums in registers while rows go by",
    });

}  // namespace ws::norm
