// Idea: an access is 16 bytes.
// From naive: a quarter of the instructions of f32, an eighth of those of 16 bits, and as many
// times the bytes on their way.
// Traffic: a read and a write of every row, 512 bytes a warp.
// Limits: contiguous tensors, rows of whole vectors. A block still waits twice, and short rows
// leave it few threads.
#pragma once

#include "kernels/embedding/lookup.hpp"

namespace ws::embedding {

#if WS_DEVICE_CODE
template <class Word>
struct VectorKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWidth = 16 / sizeof(Word);
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
    for (int64_t c = thread_index() * kWidth; c < a.columns; c += block_threads() * kWidth) {
      thread::store(a.y + i * a.columns + c, thread::load<kWidth>(a.weight + row * a.columns + c));
    }
  }
};

struct Vector {
  static bool supports(const Embedding::Call& call, Why& why) {
    return is_dense(call, why) && needs_vectors(call, why);
  }
  static void run(const Embedding::Call& call, const Context& context) {
    with_word<kFloats>(call.dtype, [&]<class Word>() {
      using Kernel = VectorKernel<Word>;
      const int64_t vectors = call.rows.columns / Kernel::kWidth;
      const int64_t threads = std::min<int64_t>(round_up(vectors, kWarpSize), Kernel::kThreads);
      launch<Kernel>({.blocks = call.rows.rows, .threads = static_cast<int>(threads)},
                     context.stream,
                     {indices_of(call, "embedding/vector"), static_cast<const Word*>(call.table),
                      call.rows.as<Word>(kRow), call.rows.columns});
    });
  }
};

inline constexpr Seed kVectorSeeds[] = {{.name = "embedding_f32x4", .dtypes = {DType::kF32}},
                                        {.name = "embedding_f32x4_pack", .dtypes = {DType::kF32}},
                                        {.name = "embedding_f16x2", .dtypes = {DType::kF16}},
                                        {.name = "embedding_f16x8", .dtypes = {DType::kF16}},
                                        {.name = "embedding_f16x8_pack", .dtypes = {DType::kF16}}};
inline constexpr Rung kVector = rung_of<Vector, Embedding>(
    {.name = "vector", .from = "naive", .idea = "16 bytes an access", .seeds = kVectorSeeds});
#endif

}  // namespace ws::embedding
