// Idea: the sums cross shared memory as f32, and are finished on the way from there to memory: by
//   lanes that stand along a row, so that what is added and what is written are whole lines, and
//   the epilogue's code is there once, not for each register.
// From naive: the product is gemm/mma_pipeline's.
// Traffic: gemm/mma_pipeline's, and of shared memory 8 bytes a sum. The epilogue of a tile, 16384
//   sums, takes some 30 instructions for four: as long as 6 steps of K of its product.
// Limits: f16 and bf16; rows that start anywhere; a stride of mat1, mat2 and y must be 1.
#pragma once

#include "kernels/gemm/28_mma_pipeline.cuh"
#include "kernels/linear/epilogue.hpp"

namespace ws::linear {

template <class T, gemm::Contiguous kA, gemm::Contiguous kB, class Policy>
struct MmaPipelineKernel : Policy {
  using Product = gemm::MmaPipelineKernel<T, kA, kB, Policy>;
  using SharedStorage = typename Product::SharedStorage;
  using Policy::kTileM, Policy::kTileN, Policy::kThreads;
  // Rows of sums, eight apart in the banks: a lane's pairs meet those of 15 others in none.
  static constexpr int kPitch = kTileN + 8;
  static_assert(kTileM * kPitch * sizeof(float) <= Policy::kStages * Policy::kStageElements * 2);

  struct Arguments {
    typename Product::Arguments product;  // without its C
    Epilogue<T> of_inputs;                // what is added is of T,
    Epilogue<float> of_f32;               // or of f32: gemm_accumulate
    bool adds_f32;
    bool writes_f32;
    void* c;
    int64_t leading;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const auto& product = g.product;
    const tile::TileIndex tile = product.raster.at(static_cast<int>(block_index()));
    const int row = tile.m * kTileM;
    const int column = tile.n * kTileN;
    const int warp_row = warp_index() / Policy::kWarpsN * Policy::kWarpTileM;
    const int warp_column = warp_index() % Policy::kWarpsN * Policy::kWarpTileN;
    typename Product::Sums sums = {};
    if (product.k > 0) {
      using CursorA = typename Product::CursorA;
      using CursorB = typename Product::CursorB;
      const int bytes = product.copy_bytes;
      Product::multiply(shared, bytes,
                        CursorA(product.a, product.a_leading, row, product.m, product.k, bytes),
                        CursorB(product.b, product.b_leading, column, product.n, product.k, bytes),
                        warp_row, warp_column, sums);
    }
    ptx::barrier_sync();  // all fragments are read: the stages are free
    const SharedSpan<float> staged{reinterpret_cast<float*>(shared.memory.pointer()),
                                   kTileM * kPitch};
    Product::Fragments::for_each_pair(sums, [&](int i, int j, float first, float second) {
      staged.template store<2>((warp_row + i) * kPitch + warp_column + j,
                               Vec<float, 2>{first, second});
    });
    ptx::barrier_sync();
    if (g.adds_f32) {
      finish(g.of_f32, g, staged, row, column);
    } else {
      finish(g.of_inputs, g, staged, row, column);
    }
  }

  template <class Source>
  __device__ __forceinline__ static void finish(const Epilogue<Source>& epilogue,
                                                const Arguments& g, SharedSpan<float> staged,
                                                int row, int column) {
    const int rows = std::min(int{kTileM}, g.product.m - row);
    const int columns = std::min(int{kTileN}, g.product.n - column);
    const int j = thread_index() % kTileN;
    if (j >= columns) return;
#pragma unroll 4
    for (int i = thread_index() / kTileN; i < rows; i += kThreads / kTileN) {
      const float y = epilogue(staged[i * kPitch + j], row + i, column + j);
      const int64_t at = (row + i) * g.leading + column + j;
      if (g.writes_f32) {
        thread::store(static_cast<float*>(g.c) + at, y);
      } else {
        thread::store(static_cast<T*>(g.c) + at, from_float<T>(y));
      }
    }
  }
  static_assert(kThreads % kTileN == 0, "a thread stays in its column");
};

struct MmaPipeline {
  static bool supports(const Call& call, Why& why) { return gemm::runs_supported(call, why); }
  static void run(const Call& call, const Context& context) {
    gemm::with_types<kHalves>(call, [&]<class T, gemm::Contiguous kA, gemm::Contiguous kB>() {
      using Kernel = MmaPipelineKernel<T, kA, kB, gemm::MmaSmall>;
      const tile::Raster raster = gemm::raster_of(call, Kernel::kTileM, Kernel::kTileN);
      launch<Kernel>({.blocks = raster.count(), .threads = Kernel::kThreads}, context.stream,
                     {.product = {call, raster, gemm::copy_bytes_of(call)},
                      .of_inputs = Epilogue<T>(call),
                      .of_f32 = Epilogue<float>(call),
                      .adds_f32 = call.source_dtype == DType::kF32,
                      .writes_f32 = call.out_dtype == DType::kF32,
                      .c = call.c.data,
                      .leading = call.c.leading});
    });
  }
};

}  // namespace ws::linear
