// The row of row_in_registers, with its policy.
#include "kernels/norm/06_row_in_registers.cuh"

namespace ws::norm {
namespace {

// H200 2026-11-21, % of copy in f32 / bf16: rms_norm 99 / 99 (N = 256), 99 / 99 (1024), 97 / 98
// (4096), 97 / 97 (8192), 96 / 96 (16384). layer_norm has twice the parameters, which take the
// registers that the next block wants: in 16 bits fetched when they are used, 95 / 95, - / 96,
// 97 / 96, 96 / 95; and fetched with x 90, 84, 88, 85.
struct Measured {
  static constexpr bool kAddsResidual = true;
  static constexpr int64_t most_bytes(DType dtype) {
    return dtype == DType::kF32 ? 64 * 1024 : 32 * 1024;
  }
  template <class T, bool kCentred, class F>
  static void with_shape(int64_t bytes, const F& f) {
    if (bytes <= 128) return f.template operator()<RowShape<8, 1, true>>();
    if constexpr (kCentred && sizeof(T) == 2) {
      if (bytes <= 512) return f.template operator()<RowShape<8, 4, false>>();
      if (bytes <= 1024) return f.template operator()<RowShape<16, 4, false>>();
      if (bytes <= 2 * 1024) return f.template operator()<RowShape<32, 4, false, 9>>();
      if (bytes <= 4 * 1024) return f.template operator()<RowShape<64, 4, false>>();
      if (bytes <= 8 * 1024) return f.template operator()<RowShape<128, 4, false>>();
      if (bytes <= 16 * 1024) return f.template operator()<RowShape<256, 4, false, 6>>();
      return f.template operator()<RowShape<512, 4, false, 3>>();
    }
    if (bytes <= 512) return f.template operator()<RowShape<16, 2, true>>();
    if (bytes <= 1024) return f.template operator()<RowShape<32, 2, true>>();
    if constexpr (sizeof(T) == 2) {
      if (bytes <= 2 * 1024) return f.template operator()<RowShape<64, 2, true>>();
      if (bytes <= 4 * 1024) return f.template operator()<RowShape<128, 2, true>>();
      if (bytes <= 8 * 1024) return f.template operator()<RowShape<256, 2, true>>();
      if (bytes <= 16 * 1024) return f.template operator()<RowShape<256, 4, true>>();
      f.template operator()<RowShape<512, 4, false>>();
    } else {
      if (bytes <= 2 * 1024) return f.template operator()<RowShape<64, 2, true>>();
      if (bytes <= 4 * 1024) return f.template operator()<RowShape<128, 2, true>>();
      if (bytes <= 8 * 1024) return f.template operator()<RowShape<256, 2, true>>();
      if (bytes <= 16 * 1024) return f.template operator()<RowShape<256, 4, false, 6>>();
      if (bytes <= 32 * 1024) return f.template operator()<RowShape<512, 4, false, 3>>();
      f.template operator()<RowShape<512, 8, false>>();
    }
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
