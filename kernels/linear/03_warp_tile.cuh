// Idea: the epilogue on the CUDA cores' tile, in the registers that hold its sums: a lane knows
//   where each belongs, so it loads what is added to it and stores the result.
// From naive: the product is gemm/warp_tile's.
// Traffic: gemm/warp_tile's; what is added comes through L1, an element a sum. A lane's 64 sums
//   take 64 K multiply-adds and, with gelu, some 20 instructions each at the end: 2 % at K = 1024.
// Limits: f32; a stride of mat1, mat2 and y must be 1.
#pragma once

#include "kernels/gemm/08_warp_tile.cuh"
#include "kernels/linear/epilogue.hpp"

namespace ws::linear {

template <gemm::Contiguous kA, gemm::Contiguous kB, class Policy>
struct WarpTileKernel : Policy {
  using Product = gemm::WarpTileKernel<kA, kB, Policy>;
  using SharedStorage = typename Product::SharedStorage;

  struct Arguments {
    typename Product::Arguments product;
    Epilogue<float> epilogue;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const auto finish = [&](auto& tile, int row, int column) {
      const Epilogue<float>& e = g.epilogue;
      tile.for_each_sum([&](int i, int j, float& sum) {
        const bool exists = row + i < g.product.m && column + j < g.product.n;
        sum = e.alpha * sum + (exists ? e.added(row + i, column + j) : 0);
      });
      with_activation(e.activation, [&](const auto& function) {
        tile.for_each_sum([&](int, int, float& sum) { sum = function(sum); });
      });
    };
    Product::multiply(shared, g.product, static_cast<int>(block_index()), finish);
  }
};

struct WarpTile {
  static bool supports(const Call& call, Why& why) { return gemm::runs_supported(call, why); }
  static void run(const Call& call, const Context& context) {
    gemm::with_contiguous(call, [&]<gemm::Contiguous kA, gemm::Contiguous kB>() {
      using Policy = gemm::WarpTileShape;
      using Kernel = WarpTileKernel<kA, kB, Policy>;
      const tile::Raster raster = Policy::raster(call);
      launch<Kernel>({.blocks = raster.count(), .threads = Policy::kThreads}, context.stream,
                     {{call, raster, gemm::copy_bytes_of(call)}, Epilogue<float>(call)});
    });
  }
};

}  // namespace ws::linear
