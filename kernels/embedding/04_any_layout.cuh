// Idea: any strides: a thread takes an element of the result, and finds out by divisions where it,
// its index and its row are.
// From naive: no block to a row, and a walk of several dimensions.
// Traffic: a read and a write of every row where their elements lie side by side, a sector of 32
// bytes for each where they do not.
// Limits: none.
#pragma once

#include "kernels/embedding/lookup.hpp"
#include "warpsmith/device_facts.hpp"

namespace ws::embedding {

#if WS_DEVICE_CODE
template <class Word>
struct AnyLayoutKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Indices index;
    RowLayout<kOperands> rows;
    const Word* weight;
    std::array<int64_t, 2> strides;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t columns = a.rows.columns;
    const int64_t step = grid_blocks() * kThreads;
    for (int64_t e = block_index() * kThreads + thread_index(); e < a.rows.rows * columns;
         e += step) {
      const int64_t i = e / columns;
      const int64_t c = e - i * columns;
      const int64_t row = a.index.at_offset(a.rows.offset(kIndex, i));
      if (!a.index.is_right(row, i)) continue;
      Word* y = static_cast<Word*>(a.rows.data[kRow]) + a.rows.offset(kRow, i);
      thread::store(y + c * a.rows.inner[kRow],
                    thread::load(a.weight + row * a.strides[0] + c * a.strides[1]));
    }
  }
};

// Blocks of `threads` for so many elements: a few an SM, each of which walks on.
inline int64_t walking_blocks(int64_t elements, int threads) {
  const int64_t places = int64_t{8} * device_facts().multiprocessors;
  return std::min(divide_up(elements, int64_t{threads}), places);
}

struct AnyLayout {
  static void run(const Embedding::Call& call, const Context& context) {
    with_word<kFloats>(call.dtype, [&]<class Word>() {
      using Kernel = AnyLayoutKernel<Word>;
      launch<Kernel>(
          {.blocks = walking_blocks(call.rows.rows * call.rows.columns, Kernel::kThreads),
           .threads = Kernel::kThreads},
          context.stream,
          {indices_of(call, "embedding/any_layout"), call.rows,
           static_cast<const Word*>(call.table), call.strides});
    });
  }
};

inline constexpr Rung kAnyLayout = rung_of<AnyLayout, Embedding>(
    {.name = "any_layout", .from = "naive", .idea = "any strides of table, indices and result"});
#endif

}  // namespace ws::embedding
