// Idea: tensor cores by their own instruction. mma.sync multiplies 16 x 16 of A by 16 x 8 of B, and
//   which lane holds which elements is documented: each fetches its own, straight from memory.
// From wmma_naive: the lanes know rows and columns, so nothing has to be aligned, and tails are
//   zeros that a lane puts in.
// Traffic: M N K (1 / 16 + 1 / 8) elements from the caches, one a load: 12 loads for one product.
// Limits: f16 and bf16; dense row-major matrices, layout nn.
#pragma once

#include <bit>

#include "kernels/gemm/plain.hpp"
#include "warpsmith/ptx/mma.hpp"

namespace ws::gemm {

#if WS_DEVICE_CODE
// Two elements as mma.sync has them in a register.
template <class T>
__device__ __forceinline__ uint32_t pair_bits(T low, T high) {
  return std::bit_cast<uint32_t>(Vec<T, 2>{low, high});
}
#endif

template <class T>
struct MmaNaiveKernel {
  static constexpr int kTile = 32;  // rows and columns of C: two warps down, four across
  static constexpr int kThreads = 256;

  using Arguments = PlainArguments<T>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage&, const Arguments& g) const {
    const TilePlace first = tile_place(g.n, kTile, kTile);
    const int group = lane_index() / 4;
    const int pair = lane_index() % 4 * 2;
    const int row = first.row + warp_index() / 4 * 16 + group;
    const int column = first.column + warp_index() % 4 * 8;
    const auto a = [&](int i, int k) {
      return i < g.m && k < g.k ? thread::load(g.a + int64_t{i} * g.k + k) : T{};
    };
    const auto b = [&](int k, int j) {
      return k < g.k && j < g.n ? thread::load(g.b + int64_t{k} * g.n + j) : T{};
    };

    float sums[4] = {};
    for (int slice = 0; slice < g.k; slice += 16) {
      uint32_t of_a[4];
      uint32_t of_b[2];
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int i = row + r % 2 * 8;
        const int k = slice + pair + r / 2 * 8;
        of_a[r] = pair_bits(a(i, k), a(i, k + 1));
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int k = slice + pair + r * 8;
        of_b[r] = pair_bits(b(k, column + group), b(k + 1, column + group));
      }
      ptx::mma_m16n8k16<T>(sums, of_a, of_b, sums);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int i = row + r * 8;
      const int j = column + pair;
      T* const c = g.c + int64_t{i} * g.n + j;
      if (i < g.m) store_pair(c, g.n - j, g.c_by_four, sums[2 * r], sums[2 * r + 1]);
    }
  }
};

struct MmaNaive {
  static bool supports(const Call& call, Why& why) { return is_plain_tiled(call, why); }
  static void run(const Call& call, const Context& context) {
    with_type<kHalves>(call.dtype, [&]<class T>() {
      using Kernel = MmaNaiveKernel<T>;
      launch_tiles<Kernel, T>(call, Kernel::kTile, Kernel::kTile, context.stream);
    });
  }
};

inline constexpr Seed kMmaNaiveSeeds[] = {
    {.name = "hgemm_mma_m16n8k16_naive", .dtypes = {DType::kF16}},
};
inline constexpr Rung kMmaNaive = rung_of<MmaNaive, kHalves, Gemm>({
    .name = "mma_naive",
    .from = "wmma_naive",
    .idea = "mma.sync: each lane brings its elements of a 16 x 8 x 16 product itself",
    .seeds = kMmaNaiveSeeds,
});

}  // namespace ws::gemm
