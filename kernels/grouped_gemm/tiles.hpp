// Grouped products by the tile kernels of one: a block finds its tile in the offsets and moves the
// pointers of the kernel's arguments to its group.
#pragma once

#include "kernels/grouped_gemm/groups.hpp"
#include "warpsmith/launch.hpp"

namespace ws::grouped_gemm {

// Bytes of one copy of A or B by a thread; an element's where a group may start at any.
inline int copy_bytes_of(const Call& call, bool at_any_element) {
  return at_any_element ? static_cast<int>(size_of(call.dtype)) : gemm::copy_bytes_of(call);
}

// Groups of rows. Product is a kernel of gemm with A in kA. The host knows no group, so the grid is
// for the most tiles that any could make; what is left over ends at once.
template <class Product, Contiguous kA>
struct RowTilesKernel {
  // Where a group moves along runs of A they start at any element.
  static constexpr bool kAlongRuns = kA == Contiguous::kRows;
  static constexpr int kThreads = Product::kThreads;
  static constexpr int kMinBlocks = Product::kMinBlocks;
  using SharedStorage = typename Product::SharedStorage;

  struct Arguments {
    typename Product::Arguments all;
    int64_t b_group;  // stride from a group's matrix to the next's
    Groups groups;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    g.groups.report(block_index() * kThreads + thread_index(), grid_blocks() * kThreads);
    const GroupTile at =
        g.groups.tile_at(static_cast<int>(block_index()), Product::kTileM, g.all.raster.tiles_n);
    if (at.tile < 0) return;
    typename Product::Arguments mine = g.all;
    mine.a += int64_t{at.first} * (kAlongRuns ? 1 : g.all.a_leading);
    mine.c += int64_t{at.first} * g.all.c_leading;
    mine.m = at.rows;
    mine.raster.tiles_m = divide_up(at.rows, Product::kTileM);
    if (at.group < g.groups.count) {
      mine.b += at.group * g.b_group;
    } else {
      mine.k = 0;  // nobody's rows: zeros
    }
    Product::multiply(shared, mine, at.tile);
  }

  static bool supports(const RowsCall& call, Why& why) {
    return gemm::runs_supported(call, why) &&
           why.unless(call.c.contiguous == Contiguous::kColumns, "needs contiguous rows of out") &&
           tiles_fit(most_tiles(call.m, call.groups, Product::kTileM),
                     divide_up(call.n, Product::kTileN), why);
  }
  static void run(const RowsCall& call, const char* rung, Stream stream) {
    const tile::Raster raster = gemm::raster_of(call, Product::kTileM, Product::kTileN);
    const int64_t tiles = most_tiles(call.m, call.groups, Product::kTileM) * raster.tiles_n;
    launch<RowTilesKernel>({.blocks = tiles, .threads = kThreads}, stream,
                           {{call, raster, copy_bytes_of(call, kAlongRuns)},
                            call.b.batch,
                            Groups(call, call.m, rung)});
  }
};

// Groups of K. Product is a kernel of gemm with A in kA and B in kB.
template <class Product, Contiguous kA, Contiguous kB>
struct DepthTilesKernel {
  static constexpr bool kAAlongRuns = kA == Contiguous::kColumns;
  static constexpr bool kBAlongRuns = kB == Contiguous::kRows;
  static constexpr int kThreads = Product::kThreads;
  static constexpr int kMinBlocks = Product::kMinBlocks;
  using SharedStorage = typename Product::SharedStorage;

  struct Arguments {
    typename Product::Arguments all;
    int64_t c_group;  // stride from a group's matrix to the next's
    Groups groups;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    g.groups.report(block_index() * kThreads + thread_index(), grid_blocks() * kThreads);
    const int of_group = g.all.raster.count();
    const auto group = static_cast<int>(block_index()) / of_group;
    const auto [first, end] = g.groups.range_of(group);
    typename Product::Arguments mine = g.all;
    mine.a += first * (kAAlongRuns ? 1 : g.all.a_leading);
    mine.b += first * (kBAlongRuns ? 1 : g.all.b_leading);
    mine.c += group * g.c_group;
    mine.k = static_cast<int>(end - first);
    Product::multiply(shared, mine, static_cast<int>(block_index()) % of_group);
  }

  static bool supports(const DepthCall& call, Why& why) {
    return gemm::runs_supported(call, why) &&
           why.unless(call.c.contiguous == Contiguous::kColumns, "needs contiguous rows of out") &&
           tiles_fit(divide_up(call.m, Product::kTileM) * divide_up(call.n, Product::kTileN),
                     call.groups, why);
  }
  static void run(const DepthCall& call, const char* rung, Stream stream) {
    const tile::Raster raster = gemm::raster_of(call, Product::kTileM, Product::kTileN);
    launch<DepthTilesKernel>({.blocks = call.groups * raster.count(), .threads = kThreads}, stream,
                             {{call, raster, copy_bytes_of(call, kAAlongRuns || kBAlongRuns)},
                              call.c.batch,
                              Groups(call, call.k, rung)});
  }
};

}  // namespace ws::grouped_gemm
