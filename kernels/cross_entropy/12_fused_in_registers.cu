// Idea: the row stays in registers between its total and its gradient: 1 to 512 threads, as the row
// asks for, of up to four vectors each.
// From fused_two_pass: one read instead of two.
// Traffic: one read, one write.
// Limits: rows of up to 32 KiB, elements side by side; not both weights and label_smoothing.
#include "kernels/cross_entropy/row_in_registers.hpp"

namespace ws::cross_entropy {
namespace {

// H200 2026-11-30, % of copy: bf16, 8 KiB 128 x 4 95.4, 64 x 8 92, 256 x 2 77; 16 KiB 256 x 4 92.2
// (f32 96.6), 128 x 8 91, 512 x 2 70.
using Held = ShapeList<Shape<1, 2>, Shape<8, 2>, Shape<32, 4>, Shape<64, 4>, Shape<128, 4>,
                       Shape<256, 4>, Shape<512, 4>>;

struct Fused : RowInRegisters<Held, true, true> {
  static void run(const Call& call, const Context& context) {
    run_named(call, context, "cross_entropy_fused/fused_in_registers");
  }
};

}  // namespace

extern const Rung kFusedInRegisters;
const Rung kFusedInRegisters =
    rung_of<Fused, CrossEntropyFused>({.name = "fused_in_registers",
                                       .from = "fused_two_pass",
                                       .idea = "1 to 512 threads hold a row: one read, one write",
                                       .file = "12_fused_in_registers.cu"});

}  // namespace ws::cross_entropy
