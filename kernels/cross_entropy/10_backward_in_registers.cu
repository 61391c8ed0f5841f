// Idea: a short row by as many lanes as it asks for, as the forward has it.
// From backward_vector: a row of 10 classes keeps one lane busy instead of 256 threads.
// Traffic: one read, one write.
// Limits: rows of up to 2 KiB, elements side by side; not both weights and label_smoothing.
#include "kernels/cross_entropy/row_in_registers.hpp"

namespace ws::cross_entropy {
namespace {

struct Short : RowInRegisters<ShapeList<Shape<1, 2>, Shape<8, 2>, Shape<32, 4>>, false, true> {
  static void run(const Call& call, const Context& context) {
    run_named(call, context, "cross_entropy_backward/backward_in_registers");
  }
};

}  // namespace

extern const Rung kBackwardInRegisters;
const Rung kBackwardInRegisters =
    rung_of<Short, CrossEntropyBackward>({.name = "backward_in_registers",
                                          .from = "backward_vector",
                                          .idea = "1 to 32 lanes a short row",
                                          .file = "10_backward_in_registers.cu"});

}  // namespace ws::cross_entropy
