// Idea: one persistent line of tiles through all groups. Producer and consumers walk the offsets
//   side by side, a running count of tiles each; a tile's group is a coordinate of the copy engine
//   in B, a first row in A and C.
// From mma_pipeline: warp_specialized of gemm. A tile that hangs over its group's end reads rows of
//   the next, which harms nobody, and leaves them out of C: whole pieces of 16 rows go to the copy
//   engine, the group's last by lanes. The producer's idle warps check the offsets and put zeros
//   into the rows after the last group.
// Traffic: B from memory once, where a group's tiles run at one time; A from L2 for each column.
// Limits: sm_90a, f16 and bf16; contiguous rows of A and out; addresses, strides of rows and of
//   groups in multiples of 16 bytes; up to 1024 groups, for they are walked one by one.
#pragma once

#include "kernels/gemm/35_warp_specialized.cuh"
#include "kernels/grouped_gemm/groups.hpp"
#include "kernels/grouped_gemm/policies.hpp"

namespace ws::grouped_gemm {

// A tile of a group of rows.
struct RowPart : tile::Part {
  gemm::MatrixIndex matrix;
  int tiles_m;  // of clusters, in the group
  int first_row;
  int end_row;
};

// C, of which rows that begin at multiples of 16 of a group are stored 16 at a time.
template <class T>
struct RowOutput {
  ptx::TensorMap map;
  T* data;
  int64_t leading;
  int columns;

  __device__ __forceinline__ void prefetch() const { ptx::prefetch_tensor_map(map); }
  template <class Store>
  __device__ __forceinline__ void put(Store& store, const RowPart& part, int row, int column,
                                      const float* sums) const {
    const int rows = part.end_row - row;
    if (rows >= Store::kRows) {
      store.put(map, row, column, sums);
    } else if (rows > 0) {
      store.finish();  // the copy engine may still read where the lanes' rows are staged
      store.write(data + row * leading + column, leading, rows, columns - column, sums);
    }
  }
};

// Every so-many-th tile of all groups, `tile_rows` high.
struct RowTiles : gemm::WholeTiles {
  static constexpr bool kBatched = true;
  static constexpr bool kRowGroups = true;
  Groups groups;
  int tile_rows = 0;
  int tiles_n = 0;

  template <class F>
  __device__ __forceinline__ void for_each(int worker, int workers, F&& f) const {
    const auto count = static_cast<int>(groups.count);
    int at = worker;
    int before = 0;  // tiles of the groups before
    int first = 0;   // row of the group
    for (int group = 0; group < count; ++group) {
      const auto end = static_cast<int>(groups.end_of(group, first));
      const int tiles_m = divide_up(end - first, tile_rows);
      const int after = before + tiles_m * tiles_n;
      for (; at < after; at += workers) {
        f(RowPart{{at - before, 0, steps}, {0, group, 0}, tiles_m, first, end});
      }
      before = after;
      first = end;
    }
  }
  // By a warp that does nothing else, one of `warps` in its block.
  template <class T>
  __device__ __forceinline__ void beside(const RowOutput<T>& c, int warp, int warps) const {
    const auto index = static_cast<int>(block_index()) * warps + warp;
    const auto all = static_cast<int>(grid_blocks()) * warps;
    groups.report(index * kWarpSize + lane_index(), all * kWarpSize);
    const auto rows = static_cast<int>(groups.length);
    for (int row = groups.last_end() + index; row < rows; row += all) {
      for (int column = lane_index() * 8; column < c.columns; column += kWarpSize * 8) {
        thread::store(c.data + row * c.leading + column, Vec<T, 8>{});
      }
    }
  }
};

template <class T, Contiguous kB, class Policy>
using RowWgmmaKernel =
    gemm::WarpSpecializedKernel<T, Contiguous::kColumns, kB, Policy, RowTiles, RowOutput<T>>;

template <class Kernel, class T>
void launch_rows(const RowsCall& call, int multiprocessors, Stream stream) {
  const tile::Raster raster = Kernel::raster(call);
  RowTiles work;
  work.groups = Groups(call, call.m, "grouped_gemm/wgmma");
  work.tile_rows = Kernel::kTileM * Kernel::kClusterM;
  work.tiles_n = raster.tiles_n;
  work.steps = static_cast<int>(divide_up(call.k, Kernel::kTileK));
  const int64_t tiles = most_tiles(call.m, call.groups, work.tile_rows) * raster.tiles_n;
  Kernel::start(
      {.a = Kernel::StageA::tensor_map(call.a.as<const T>(), ptx::MatrixBatch{}, call.m, call.k,
                                       call.a.leading),
       .b = Kernel::StageB::tensor_map(call.b.as<const T>(), matrices_of_groups(call, call.b),
                                       call.n, call.k, call.b.leading),
       .c = {Kernel::Store::tensor_map(call.c.as<const T>(), ptx::MatrixBatch{}, call.m, call.n,
                                       call.c.leading),
             call.c.as<T>(), call.c.leading, static_cast<int>(call.n)},
       .raster = raster,
       .work = work,
       .m = static_cast<int>(call.m),
       .n = static_cast<int>(call.n)},
      static_cast<int>(std::min<int64_t>(tiles, multiprocessors / Kernel::kCluster)), stream);
}

template <class T>
void run_rows(const RowsCall& call, int multiprocessors, Stream stream) {
  with_row_policy(call, multiprocessors, [&]<class Policy>() {
    call.b.contiguous == Contiguous::kColumns
        ? launch_rows<RowWgmmaKernel<T, Contiguous::kColumns, Policy>, T>(call, multiprocessors,
                                                                          stream)
        : launch_rows<RowWgmmaKernel<T, Contiguous::kRows, Policy>, T>(call, multiprocessors,
                                                                       stream);
  });
}
extern template void run_rows<half>(const RowsCall&, int, Stream);
extern template void run_rows<bf16>(const RowsCall&, int, Stream);

struct Wgmma {
  static bool supports(const RowsCall& call, Why& why) {
    return why.unless(call.groups > 0, "no groups leave nothing to copy") &&
           are_copied(call, call.b, why) &&
           why.unless(call.a.contiguous == Contiguous::kColumns &&
                          call.c.contiguous == Contiguous::kColumns,
                      "needs contiguous rows of a and out") &&
           why.unless(call.groups <= kMostGroups, call.groups, " groups are more than ",
                      kMostGroups) &&
           // A walk of the tiles ends up to a wave beyond the last.
           tiles_fit(2 * most_tiles(call.m, call.groups, 128), divide_up(call.n, 128), why);
  }

  static void run(const RowsCall& call, const Context& context) {
    const int multiprocessors = device_facts().multiprocessors;
    with_type<kHalves>(call.dtype,
                       [&]<class T>() { run_rows<T>(call, multiprocessors, context.stream); });
  }
};

}  // namespace ws::grouped_gemm
