// Idea: tensor cores, the easy way. With nvcuda::wmma a warp loads 16 x 16 of A and of B, and
//   multiplies them, 4096 multiply-adds in one call; which lane holds what is not its business.
// From naive: a warp computes 16 x 16 of C, so an element read serves 16 products.
// Traffic: M N K (1 / 16 + 1 / 16) elements from the caches, straight to the fragments.
// Limits: f16 and bf16; dense row-major matrices, layout nn; A and B at multiples of 32 bytes; M, N
//   and K multiples of 16, since a fragment has no tail.
#pragma once

#include "kernels/gemm/plain.hpp"
#include "kernels/gemm/wmma_output.hpp"

namespace ws::gemm {

template <class T>
struct WmmaNaiveKernel {
  using Product = ptx::Wmma<T, 16, 16, 16>;
  static constexpr int kThreads = kWarpSize;

  using Arguments = PlainArguments<T>;
  using SharedStorage = WmmaOutput<Product, 1>;

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const auto [row, column] = tile_place(g.n, 16, 16);
    const T* const a = g.a + int64_t{row} * g.k;
    const T* const b = g.b + column;
    typename Product::Sums sums;
    Product::clear(sums);
    for (int k = 0; k < g.k; k += 16) {
      typename Product::A of_a;
      typename Product::B of_b;
      Product::load(of_a, a + k, g.k);
      Product::load(of_b, b + int64_t{k} * g.n, g.n);
      Product::multiply_add(sums, of_a, of_b);
    }
    shared.write(sums, g.c + int64_t{row} * g.n + column, g.n, 16, 16, g.c_by_four);
  }
};

struct WmmaNaive {
  static bool supports(const Call& call, Why& why) {
    const auto is_whole = [](const Matrix& matrix) {
      return reinterpret_cast<uintptr_t>(matrix.data) % 32 == 0;
    };
    return is_plain_tiled(call, why) &&
           why.unless(call.m % 16 == 0 && call.n % 16 == 0 && call.k % 16 == 0,
                      "M, N and K must be multiples of 16") &&
           why.unless(is_whole(call.a) && is_whole(call.b),
                      "a and b must start at multiples of 32 bytes");
  }
  static void run(const Call& call, const Context& context) {
    with_type<kHalves>(call.dtype, [&]<class T>() {
      launch_tiles<WmmaNaiveKernel<T>, T>(call, 16, 16, context.stream);
    });
  }
};

inline constexpr Seed kWmmaNaiveSeeds[] = {
    {.name = "hgemm_wmma_m16n16k16_naive", .dtypes = {DType::kF16}},
};
inline constexpr Rung kWmmaNaive = rung_of<WmmaNaive, kHalves, Gemm>({
    .name = "wmma_naive",
    .from = "naive",
    .idea = "tensor cores by nvcuda::wmma: a warp computes 16 x 16 from fragments of memory",
    .seeds = kWmmaNaiveSeeds,
});

}  // namespace ws::gemm
