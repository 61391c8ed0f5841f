// Idea: so little code that it is there before the data. A product of a batch that is one small
//   tile is over in a trip to memory, and a launch's instructions come from there too: so a thread
//   copies single elements, all of a slice under way at once, and four warps multiply by mma.sync.
// From batched_naive: a tile of 32 x 32 for a block, its operands read once, on tensor cores.
// Traffic: a tile's operands from L2, two bytes a lane: neighbouring lanes, neighbouring elements.
// Limits: f16 and bf16, C also f32; a stride of each matrix 1; rows and products start anywhere.
// Long: its copies, products and stores are all there is, and share the tile's numbers.
#pragma once

#include "kernels/gemm/batched.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/tile/mma_fragments.hpp"

namespace ws::gemm {

template <class T, class Out, Contiguous kA, Contiguous kB, class Finish = PlainSum>
struct BatchedMmaKernel {
  static constexpr int kTile = 32;  // rows, columns, and K of a slice
  static constexpr int kThreads = 128;
  static constexpr int kMinBlocks = 8;
  static constexpr bool kARunsAlongK = kA == Contiguous::kColumns;
  static constexpr bool kBRunsAlongK = kB == Contiguous::kRows;
  using Tile = tile::PaddedTile<kTile, kTile>;
  using Fragments = tile::MmaFragments<T, 16, 16>;
  using LaneOffsets =
      typename Fragments::template LaneOffsets<Tile, kARunsAlongK, Tile, kBRunsAlongK>;
  static constexpr int kCopies = kTile * kTile / kThreads;  // of a thread, of each operand

  struct Operand {
    const T* data;
    int64_t leading;
    int64_t batch;  // stride
  };
  struct Arguments {
    Operand a;
    Operand b;
    Out* c;
    int64_t c_leading;
    int64_t c_batch;
    int m, n, k;
    int tiles_n, of_product;  // tiles
    Finish finish;
  };
  struct SharedStorage {
    SharedArray<T, Tile::kElements, 128> a;
    SharedArray<T, Tile::kElements, 128> b;
  };

  // A thread's elements of a slice: of the tile that begins at `outer`, of which `outers` are
  // there.
  template <bool kRunsAlongK>
  struct Copies {
    const T* from;  // the thread's first
    int64_t down;   // elements from one of its to the next
    int run, element;
    T values[kCopies];

    __device__ __forceinline__ Copies(const T* matrix, int64_t leading, int outer)
        : from(matrix),
          down(kThreads / kTile * leading),
          run(thread_index() / kTile),
          element(thread_index() % kTile) {
      from += (run + (kRunsAlongK ? outer : 0)) * leading + element + (kRunsAlongK ? 0 : outer);
    }
    // The next slice, of which so many runs and elements are there.
    __device__ __forceinline__ void load(int runs, int elements, int64_t step) {
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        values[i] = T{};
        if (element < elements && run + i * (kThreads / kTile) < runs) {
          values[i] = thread::load(from + i * down);
        }
      }
      from += step;
    }
    __device__ __forceinline__ void store(const SharedSpan<T>& tile) const {
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        tile[Tile::offset(run + i * (kThreads / kTile), element)] = values[i];
      }
    }
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const auto block = static_cast<int>(block_index());
    const int product = block / g.of_product;
    const int tile = block - product * g.of_product;
    const int row = tile / g.tiles_n * kTile;
    const int column = tile % g.tiles_n * kTile;
    Copies<kARunsAlongK> a(g.a.data + product * g.a.batch, g.a.leading, row);
    Copies<kBRunsAlongK> b(g.b.data + product * g.b.batch, g.b.leading, column);
    const SharedSpan<T> tile_a{shared.a.pointer(), Tile::kElements};
    const SharedSpan<T> tile_b{shared.b.pointer(), Tile::kElements};
    const int warp_row = warp_index() / 2 * 16;
    const int warp_column = warp_index() % 2 * 16;
    const LaneOffsets lane(warp_row, warp_column);
    typename Fragments::Sums sums = {};
    for (int k = 0; k < g.k; k += kTile) {
      const int left = g.k - k;
      kARunsAlongK ? a.load(g.m - row, left, kTile) : a.load(left, g.m - row, kTile * g.a.leading);
      kBRunsAlongK ? b.load(g.n - column, left, kTile)
                   : b.load(left, g.n - column, kTile * g.b.leading);
      if (k > 0) ptx::barrier_sync();  // all fragments of the slice before are read
      a.store(tile_a);
      b.store(tile_b);
      ptx::barrier_sync();
#pragma unroll
      for (int step = 0; step < kTile; step += 16) {
        Fragments fragments;
        fragments.load(0, tile_a, tile_b, lane, step);
        fragments.multiply_add(sums);
      }
    }
    Out* const c = g.c + product * g.c_batch;
    Fragments::for_each_pair(sums, [&](int i, int j, float first, float second) {
      const int to_row = row + warp_row + i;
      const int to_column = column + warp_column + j;
      if (to_row >= g.m) return;
      Out* const to = c + to_row * g.c_leading + to_column;
      const auto put = [&](int next, float sum) {
        if (to_column + next >= g.n) return;
        thread::store(to + next, from_float<Out>(g.finish(sum, product, to_row, to_column + next)));
      };
      put(0, first);
      put(1, second);
    });
  }

  static void run(const BatchedCall& call, const Finish& finish, Stream stream) {
    const auto tiles_n = static_cast<int>(divide_up(call.n, kTile));
    const auto of_product = static_cast<int>(divide_up(call.m, kTile)) * tiles_n;
    launch<BatchedMmaKernel>({.blocks = call.batch * of_product, .threads = kThreads}, stream,
                             {.a = {call.a.as<const T>(), call.a.leading, call.a.batch},
                              .b = {call.b.as<const T>(), call.b.leading, call.b.batch},
                              .c = call.c.as<Out>(),
                              .c_leading = call.c.leading,
                              .c_batch = call.c.batch,
                              .m = static_cast<int>(call.m),
                              .n = static_cast<int>(call.n),
                              .k = static_cast<int>(call.k),
                              .tiles_n = tiles_n,
                              .of_product = of_product,
                              .finish = finish});
  }
};

struct BatchedMma {
  static bool supports(const BatchedCall& call, Why& why) {
    return runs_supported(call, why) &&
           fits_grid(call, divide_up(call.m, 32) * divide_up(call.n, 32), why);
  }
  static void run(const BatchedCall& call, const Context& context) {
    with_dtypes<kHalves>(call, [&]<class T, class Out>() {
      with_contiguous(call, [&]<Contiguous kA, Contiguous kB>() {
        BatchedMmaKernel<T, Out, kA, kB>::run(call, {}, context.stream);
      });
    });
  }
};

}  // namespace ws::gemm
