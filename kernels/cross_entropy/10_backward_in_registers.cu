// Idea: a short row by as many threads as it asks for, as the forward has it.
// From backward_vector: a row of 10 classes keeps one lane busy instead of 128 threads, and what
// belongs to a row is asked for together with it.
// Traffic: one read, one write.
// Limits: rows of up to 16 KiB, elements side by side; not both weights and label_smoothing.
#include "kernels/cross_entropy/row_in_registers.hpp"

namespace ws::cross_entropy {
namespace {

// H200 2026-11-30, % of copy: bf16, 8 KiB 32 x 16 97.1, 64 x 8 96.7, 128 x 4 96.4; 16 KiB 128 x 8
// 97.0 (f32 98.3), 64 x 16 96.1, 256 x 4 96.5.
using Held =
    ShapeList<Shape<1, 2>, Shape<8, 2>, Shape<32, 4>, Shape<64, 4>, Shape<64, 8>, Shape<128, 8>>;

struct Short : RowInRegisters<Held, false, true> {
  static void run(const Call& call, const Context& context) {
    run_named(call, context, "cross_entropy_backward/backward_in_registers");
  }
};

}  // namespace

extern const Rung kBackwardInRegisters;
const Rung kBackwardInRegisters =
    rung_of<Short, CrossEntropyBackward>({.name = "backward_in_registers",
                                          .from = "backward_vector",
                                          .idea = "1 to 128 threads hold a short row",
                                          .file = "10_backward_in_registers.cu"});

}  // namespace ws::cross_entropy
