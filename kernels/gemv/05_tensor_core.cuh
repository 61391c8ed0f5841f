// Idea: mma.sync does the arithmetic: 16 rows of A times x, which stands in all eight columns of B.
// From warp_vectors: a product of 16 x 16 elements of A is one instruction, no conversion.
// Traffic: A once, x once for 16 rows. The sum over K does not care for K's order, so the eight
//   elements that a lane loads at once are its part of two fragments, of A as of x: no shared
//   memory, no ldmatrix.
// Limits: f16, bf16, K a multiple of 8. Memory decides: seven eighths of the products are thrown
//   away, and still nothing is won.
#pragma once

#include "kernels/gemv/rows.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/ptx/mma.hpp"
#include "warpsmith/shared.hpp"

namespace ws::gemv {

template <class T>
struct TensorCoreKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kRows = 16;  // of a block, whose warps share out K
  static constexpr int kLoads = 4;  // of 16 bytes, of each of a lane's two rows
  using Arguments = RowArguments<T>;
  struct SharedStorage {
    SharedArray<float, kWarps * kRows> sums;
  };
  using Vector = row::Packed<T, 8>;  // as four words of two elements

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const int64_t first = block_index() * kRows;
    const int group = lane_index() / 4;  // the rows of a fragment: this one and eight below
    const int place = lane_index() % 4 * 8;
    const T* upper = g.a + (first + group < g.m ? first + group : g.m - 1) * g.pitch;
    const T* lower = g.a + (first + group + 8 < g.m ? first + group + 8 : g.m - 1) * g.pitch;

    float sums[4] = {};
    for (int k = warp_index() * kLoads * 32; k < g.k; k += kWarps * kLoads * 32) {
      Vector a[kLoads][2];
      Vector x[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int at = k + i * 32 + place;
        a[i][0] = row::load_or_zeros<8>(upper + at, at < g.k);
        a[i][1] = row::load_or_zeros<8>(lower + at, at < g.k);
        x[i] = row::load_or_zeros<8>(g.x + at, at < g.k);
      }
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
#pragma unroll
        for (int half = 0; half < 4; half += 2) {
          const auto& upper_words = a[i][0].words;
          const auto& lower_words = a[i][1].words;
          const uint32_t of_a[4] = {upper_words[half], lower_words[half], upper_words[half + 1],
                                    lower_words[half + 1]};
          const uint32_t of_x[2] = {x[i].words[half], x[i].words[half + 1]};
          ptx::mma_m16n8k16<T>(sums, of_a, of_x, sums);
        }
      }
    }
    // All columns of the result are the same; lane 4 * group has rows group and group + 8.
    if (place == 0) {
      shared.sums[warp_index() * kRows + group] = sums[0];
      shared.sums[warp_index() * kRows + group + 8] = sums[2];
    }
    ptx::barrier_sync();
    const int64_t row = first + thread_index();
    if (thread_index() < kRows && row < g.m) {
      float sum = 0;
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) sum += shared.sums[warp * kRows + thread_index()];
      thread::store(g.y + row * g.y_step, from_float<T>(sum));
    }
  }
};

struct TensorCore {
  static bool supports(const Call& call, Why& why) {
    return rows_supported(call, why) &&
           why.unless(call.k % 8 == 0, "takes K in multiples of 8, not ", call.k);
  }
  static void run(const Call& call, const Context& context) {
    with_type<kHalves>(call.dtype, [&]<class T>() {
      using Kernel = TensorCoreKernel<T>;
      launch<Kernel>({.blocks = divide_up(call.m, Kernel::kRows), .threads = Kernel::kThreads},
                     context.stream, RowArguments<T>(call));
    });
  }
};

inline constexpr Seed kTensorCoreSeeds[] = {
    {.name = "hgemv_tensor_core", .dtypes = {DType::kF16}},
};
inline constexpr Rung kTensorCore = rung_of<TensorCore, kHalves, Gemv>({
    .name = "tensor_core",
    .from = "warp_vectors",
    .idea = "mma.sync with x in every column of B: the arithmetic was not the limit",
    .seeds = kTensorCoreSeeds,
});

}  // namespace ws::gemv
