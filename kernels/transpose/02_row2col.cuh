// Idea: a thread an element of y, in y's order: what is scattered is read, not written.
// From col2row: a sector that comes for one element stays in the L1 for its neighbours, which a
//   later warp of the block, or the next block, asks for; a written one waits in the L2 alone.
// Traffic: warps write lines of 128 bytes, and read up to 32 bytes for each element.
// Limits: one dense matrix.
#pragma once

#include "kernels/transpose/01_col2row.cuh"

namespace ws::transpose {

#if WS_DEVICE_CODE
template <class T>
struct Row2colKernel {
  static constexpr int kThreads = 256;
  using Arguments = MatrixArguments<T>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.rows * a.columns) return;
    const int64_t column = i / a.rows;
    const int64_t row = i % a.rows;
    thread::store(a.y + i, thread::load(a.x + row * a.columns + column));
  }
};

struct Row2col {
  static bool supports(const Permutation& call, Why& why) { return is_matrix(call, why); }
  static void run(const Permutation& call, const Context& context) {
    with_element(call.element_bytes, [&]<class T>() {
      using Kernel = Row2colKernel<T>;
      launch<Kernel>(
          {.blocks = divide_up(call.elements(), Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream, MatrixArguments<T>(call));
    });
  }
};

inline constexpr Seed kRow2colSeeds[] = {{"{}_f32_row2col", {}, {DType::kF32}}};
inline constexpr Rung kRow2col =
    rung_of<Row2col, Transpose>({.name = "row2col",
                                 .from = "col2row",
                                 .idea = "a thread an element of y: bits read, whole lines written",
                                 .seeds = kRow2colSeeds});
#endif

}  // namespace ws::transpose
