// The row of row_in_registers, with its policy.
#include "kernels/norm/06_row_in_registers.cuh"

namespace ws::norm {
namespace {

// H200 2026-11-21, % of copy in f32 / bf16: rms_norm 99 / 98 (N = 256), 99 / 94 (1024), 97 / 97
// (4096), 97 / 97 (8192), 96 / 96 (16384). layer_norm has twice the parameters, which take the
// registers that the next block wants: fetched with x 75 / 78 at 4096, when used - / 95; and it has
// more to do for each thread, so that threads hold more: 8 vectors 95 at 16384 in f32.
struct Measured {
  static constexpr bool kAddsResidual = true;
  static constexpr int64_t most_bytes(DType dtype) {
    return dtype == DType::kF32 ? 64 * 1024 : 32 * 1024;
  }
  template <class T, bool kCentred, class F>
  static void with_shape(int64_t bytes, const F& f) {
    constexpr bool kNarrow = sizeof(T) == 2;
    if (bytes <= 128) return f.template operator()<RowShape<8, 1, true, 1>>();
    if (bytes <= 256) return f.template operator()<RowShape<8, 2, true, 1>>();
    if (bytes <= 512) return f.template operator()<RowShape<16, 2, true, 1>>();
    if (bytes <= 1024) return f.template operator()<RowShape<32, 2, true, 1>>();
    if (kNarrow && bytes <= 2048) return f.template operator()<RowShape<32, 4, !kCentred, 1>>();
    constexpr int64_t kTwo = (kNarrow ? 4 : (kCentred ? 8 : 16)) * 1024;
    if (bytes <= kTwo) return f.template operator()<RowShape<0, 2, true, 1>>();
    constexpr int64_t kFour = (kCentred ? (kNarrow ? 8 : 16) : 32) * 1024;
    if (bytes <= kFour) return f.template operator()<RowShape<0, 4, !kCentred, 1>>();
    if constexpr (kCentred || !kNarrow) f.template operator()<RowShape<0, 8, false, 1>>();
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
