// The row of row_in_registers, with its policy.
#include "kernels/norm/06_row_in_registers.cuh"

namespace ws::norm {
namespace {

// H200 2026-11-21, % of copy in f32 / bf16 with the shapes of softmax: rms_norm 99 / 99 (N = 256),
// 99 / 98 (1024), 97 / 96 (4096), 98 / 94 (8192), 96 / 73 (16384). layer_norm, whose two parameters
// take the registers that the next block wants, 95 / 87 at 1024, 75 / 78 at 4096, 62 / 65 at 8192
// so, but 95 (f32, 16384) with 8 vectors a thread and parameters fetched when they are used:
// candidates.hpp.
struct Measured {
  static constexpr bool kAddsResidual = true;
  static constexpr int64_t most_bytes(DType dtype) {
    return dtype == DType::kF32 ? 64 * 1024 : 32 * 1024;
  }
  template <class T, bool kCentred, class F>
  static void with_shape(int64_t bytes, const F& f) {
    constexpr int64_t kTwo = sizeof(T) == 4 ? 16 * 1024 : 4 * 1024;
    if (bytes <= 128) return f.template operator()<RowShape<8, 1, true, 1>>();
    if (bytes <= 256) return f.template operator()<RowShape<8, 2, true, 1>>();
    if (bytes <= 512) return f.template operator()<RowShape<16, 2, true, 1>>();
    if (bytes <= 1024) return f.template operator()<RowShape<32, 2, true, 1>>();
    if (bytes <= kTwo) return f.template operator()<RowShape<0, 2, true, 1>>();
    if (bytes <= 32 * 1024) return f.template operator()<RowShape<0, 4, !kCentred, 1>>();
    if constexpr (sizeof(T) == 4) f.template operator()<RowShape<0, 8, false, 1>>();
  }
};

}  // namespace

extern const Rung kRowInRegisters;
const Rung kRowInRegisters = rung_of<RowInRegisters<Measured>, LayerNorm, RmsNorm>({
    .name = "row_in_registers",
    .from = "block_per_row_x8_pack",
    .idea = "the row in registers, 8 to 512 threads as it asks for: one read, one barrier",
});

}  // namespace ws::norm
