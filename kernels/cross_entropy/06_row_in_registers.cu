// Idea: as many lanes as a short row asks for, 1, 8 or 32, hold it in registers, so that a block
// has 128 to 4 rows.
// From vector: a row of 10 classes keeps one lane busy instead of 256 threads; no barrier; the
// maximum is known before the first exponential.
// Traffic: one read, all loads under way before the first is needed.
// Limits: rows of up to 2 KiB, elements side by side; not both weights and label_smoothing.
#include "kernels/cross_entropy/row_in_registers.hpp"

namespace ws::cross_entropy {
namespace {

struct Short : RowInRegisters<ShapeList<Shape<1, 2>, Shape<8, 2>, Shape<32, 4>>, true, false> {
  static void run(const Call& call, const Context& context) {
    run_named(call, context, "cross_entropy_forward/row_in_registers");
  }
};

}  // namespace

extern const Rung kRowInRegisters;
const Rung kRowInRegisters =
    rung_of<Short, CrossEntropyForward>({.name = "row_in_registers",
                                         .from = "vector",
                                         .idea = "1 to 32 lanes a short row, which they hold",
                                         .file = "06_row_in_registers.cu"});

}  // namespace ws::cross_entropy
