// Idea: a tile's number says which product it is of; the product moves three pointers, and all else
//   is the kernel of one.
// From warp_tile: batched. Small products fill the GPU together.
// Traffic: warp_tile's: B M N K (1 / 64 + 1 / 64) elements from L2.
// Limits: f32; a stride of each matrix must be 1.
#pragma once

#include "kernels/gemm/08_warp_tile.cuh"
#include "kernels/gemm/batched.hpp"

namespace ws::gemm {

template <Contiguous kA, Contiguous kB, class Policy, class Finish = PlainSum>
struct BatchedWarpTileKernel : Policy {
  using Product = WarpTileKernel<kA, kB, Policy>;
  using SharedStorage = typename Product::SharedStorage;

  struct Arguments {
    typename Product::Arguments first;
    int64_t a_batch, b_batch, c_batch;  // strides from product to product
    Finish finish;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const int64_t product = block_index() / g.first.raster.count();
    const int64_t tile = block_index() % g.first.raster.count();
    typename Product::Arguments mine = g.first;
    mine.a += product * g.a_batch;
    mine.b += product * g.b_batch;
    mine.c += product * g.c_batch;
    Product::multiply(shared, mine, static_cast<int>(tile), [&](auto& sums, int row, int column) {
      sums.for_each_sum([&](int i, int j, float& sum) {
        if (row + i >= mine.m || column + j >= mine.n) return;
        sum = g.finish(sum, product, row + i, column + j);
      });
    });
  }

  static void run(const BatchedCall& call, const Finish& finish, Stream stream) {
    const tile::Raster raster = Policy::raster(call);
    launch<BatchedWarpTileKernel>(
        {.blocks = call.batch * raster.count(), .threads = Policy::kThreads}, stream,
        {{call, raster, copy_bytes_of(call)}, call.a.batch, call.b.batch, call.c.batch, finish});
  }
};

struct BatchedWarpTile {
  static bool supports(const BatchedCall& call, Why& why) {
    return runs_supported(call, why) && fits_grid(call,
                                                  divide_up(call.m, WarpTileShape::kTileM) *
                                                      divide_up(call.n, WarpTileShape::kTileN),
                                                  why);
  }
  static void run(const BatchedCall& call, const Context& context) {
    with_types<DTypes{DType::kF32}>(call, [&]<class, Contiguous kA, Contiguous kB>() {
      BatchedWarpTileKernel<kA, kB, WarpTileShape>::run(call, {}, context.stream);
    });
  }
};

}  // namespace ws::gemm
