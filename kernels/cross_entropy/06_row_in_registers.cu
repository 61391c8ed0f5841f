// Idea: as many threads as a short row asks for, 1 to 128, hold it in registers, so that a block
// has 128 rows to one.
// From vector: a row of 10 classes keeps one lane busy instead of 256 threads, one of 4096 two
// warps that hold all of it; the maximum is known before the first exponential.
// Traffic: one read, all loads under way before the first is needed.
// Limits: rows of up to 16 KiB, elements side by side; not both weights and label_smoothing.
#include "kernels/cross_entropy/row_in_registers.hpp"

namespace ws::cross_entropy {
namespace {

// H200 2026-11-30, % of the copy of as much: bf16, 8 KiB 64 x 8 90, 32 x 16 89, 128 x 4 87, 256 x 2
// 64; 16 KiB 128 x 8 90 (f32 101), 64 x 16 90, 256 x 4 84.
using Held =
    ShapeList<Shape<1, 2>, Shape<8, 2>, Shape<32, 4>, Shape<32, 8>, Shape<64, 8>, Shape<128, 8>>;

struct Short : RowInRegisters<Held, true, false> {
  static void run(const Call& call, const Context& context) {
    run_named(call, context, "cross_entropy_forward/row_in_registers");
  }
};

}  // namespace

extern const Rung kRowInRegisters;
const Rung kRowInRegisters =
    rung_of<Short, CrossEntropyForward>({.name = "row_in_registers",
                                         .from = "vector",
                                         .idea = "1 to 128 threads hold a short row",
                                         .file = "06_row_in_registers.cu"});

}  // namespace ws::cross_entropy
