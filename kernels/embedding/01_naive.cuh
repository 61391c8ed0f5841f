// Idea: a block a row: it reads its index, then its threads copy the row, an element each.
// Traffic: a read and a write of every row; a warp asks for 128 bytes of f32, for 64 of f16, and
// waits for the index, then for the row, with nothing else on its way.
// Limits: contiguous tensors.
#pragma once

#include "kernels/embedding/lookup.hpp"

namespace ws::embedding {

#if WS_DEVICE_CODE
// Word: an element, whatever it means.
template <class Word>
struct NaiveKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    Indices index;
    const Word* weight;
    Word* y;
    int64_t columns;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = block_index();
    const int64_t row = a.index[i];
    if (!a.index.is_right(row, i)) return;
    for (int64_t c = thread_index(); c < a.columns; c += block_threads()) {
      thread::store(a.y + i * a.columns + c, thread::load(a.weight + row * a.columns + c));
    }
  }
};

struct Naive {
  static bool supports(const Embedding::Call& call, Why& why) { return is_dense(call, why); }
  static void run(const Embedding::Call& call, const Context& context) {
    with_word<kFloats>(call.dtype, [&]<class Word>() {
      using Kernel = NaiveKernel<Word>;
      const int64_t threads =
          std::min<int64_t>(round_up(call.rows.columns, kWarpSize), Kernel::kThreads);
      launch<Kernel>({.blocks = call.rows.rows, .threads = static_cast<int>(threads)},
                     context.stream,
                     {indices_of(call, "embedding/naive"), static_cast<const Word*>(call.table),
                      call.rows.as<Word>(kRow), call.rows.columns});
    });
  }
};

inline constexpr Seed kNaiveSeeds[] = {{.name = "embedding_f32", .dtypes = {DType::kF32}},
                                       {.name = "embedding_f16", .dtypes = {DType::kF16}}};
inline constexpr Rung kNaive = rung_of<Naive, Embedding>(
    {.name = "naive", .idea = "a block a row, a thread an element", .seeds = kNaiveSeeds});
#endif

}  // namespace ws::embedding
