// Idea: one persistent line of tiles through all groups. Producer and consumers walk the offsets
//   side by side, a running count of tiles each; a tile's group is a coordinate of the copy engine
//   in B, a first row in A and C.
// From mma_pipeline: warp_specialized of gemm. A tile that hangs over its group's end reads rows of
//   the next, which harms nobody, and leaves them out of C: whole pieces of 16 rows go to the copy
//   engine, the group's last by lanes. Idle warps check offsets, and clear rows behind all groups.
// Traffic: B from memory once, where a group's tiles run at one time; A from L2 for each column.
// Limits: sm_90a, f16 and bf16, also to f32; a stride of A and B 1, contiguous rows of out; A, B,
//   their rows and B's matrices start at multiples of 16 bytes; up to 1024 groups, for they are
//   walked one by one.
#pragma once

#include "kernels/grouped_gemm/output.hpp"

namespace ws::grouped_gemm {

// A tile of a group of rows.
struct RowPart : tile::Part {
  gemm::MatrixIndex matrix;
  int tiles_m;    // of clusters, in the group
  int first_row;  // of the group's first tile
  int begin_row;  // of the group
  int end_row;
};

// C, of which rows that begin at multiples of 16 of a group's tiles are stored 16 at a time.
template <class T>
struct RowOutput : GroupedOutput<T> {
  template <class Store>
  __device__ __forceinline__ void put(Store& store, const RowPart& part, int row, int column,
                                      const float* sums) const {
    const int from = part.begin_row - row;
    const int to = part.end_row - row;
    T* const at = this->data + row * this->leading + column;
    const int left = this->columns - column;
    if (to <= 0) return;
    if (from > 0 || this->by_lanes)
      return write_rows(store, at, this->leading, from, to, left, sums);
    if (to >= Store::kRows) return store.put(this->map, row, column, sums);
    store.finish();  // the copy engine may still read where the lanes' rows are staged
    store.write(at, this->leading, to, left, sums);
  }
};

// Every so-many-th tile of all groups, `tile_rows` high, from multiples of kAlignment rows on.
template <int kAlignment>
struct RowTiles : gemm::WholeTiles {
  static constexpr bool kBatched = true;
  static constexpr bool kRowGroups = true;
  Groups groups;
  int tile_rows = 0;
  int tiles_n = 0;
  int b_step = 1;  // 0 where all groups share the matrix

  template <class F>
  __device__ __forceinline__ void for_each(int worker, int workers, F&& f) const {
    const auto count = static_cast<int>(groups.count);
    int at = worker;
    int before = 0;  // tiles of the groups before
    int first = 0;   // row of the group
    for (int group = 0; group < count; ++group) {
      const auto end = static_cast<int>(groups.end_of(group, first));
      const int from = first - first % kAlignment;
      const int tiles_m = first == end ? 0 : divide_up(end - from, tile_rows);
      const int after = before + tiles_m * tiles_n;
      for (; at < after; at += workers) {
        f(RowPart{{at - before, 0, steps}, {0, group * b_step, 0}, tiles_m, from, first, end});
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
    for (int row = groups.last_end() + index; row < rows; row += all) c.clear_row(row);
  }
};

// Rows of A: the copy engine takes any; of A by columns, multiples of 16 bytes.
template <Contiguous kA>
using RowTilesOf = RowTiles<kA == Contiguous::kColumns ? 1 : kCopyAlignment>;

template <class T, class Out, Contiguous kA, Contiguous kB, class Policy>
using RowWgmmaKernel =
    gemm::WarpSpecializedKernel<T, kA, kB, Policy, RowTilesOf<kA>, RowOutput<Out>>;

template <class Kernel, class T, class Out, class Work>
void launch_rows(const RowsCall& call, const char* rung, int multiprocessors, Stream stream) {
  const tile::Raster raster = Kernel::raster(call);
  Work work;
  work.groups = Groups(call, call.m, rung);
  work.tile_rows = Kernel::kTileM * Kernel::kClusterM;
  work.tiles_n = raster.tiles_n;
  work.b_step = call.b.batch == 0 ? 0 : 1;
  work.steps = static_cast<int>(divide_up(call.k, Kernel::kTileK));
  const int64_t tiles = most_tiles(call.m, call.groups, work.tile_rows) * raster.tiles_n;
  Kernel::start(
      {.a = Kernel::StageA::tensor_map(call.a.as<const T>(), ptx::MatrixBatch{}, call.m, call.k,
                                       call.a.leading),
       .b = Kernel::StageB::tensor_map(call.b.as<const T>(), matrices_of_groups(call, call.b),
                                       call.n, call.k, call.b.leading),
       .c = {output_of<typename Kernel::Store, Out>(call, ptx::MatrixBatch{})},
       .raster = raster,
       .work = work,
       .m = static_cast<int>(call.m),
       .n = static_cast<int>(call.n)},
      static_cast<int>(std::min<int64_t>(tiles, multiprocessors / Kernel::kCluster)), stream);
}

// Instantiated beside the rung's row, for other rungs and for tests.
template <class T, class Out = T>
void run_rows(const RowsCall& call, const char* rung, int multiprocessors, Stream stream) {
  gemm::with_contiguous(call, [&]<Contiguous kA, Contiguous kB>() {
    with_policy(call, multiprocessors, [&]<class Policy>() {
      using Kernel = RowWgmmaKernel<T, Out, kA, kB, Policy>;
      launch_rows<Kernel, T, Out, RowTilesOf<kA>>(call, rung, multiprocessors, stream);
    });
  });
}
extern template void run_rows<half>(const RowsCall&, const char*, int, Stream);
extern template void run_rows<bf16>(const RowsCall&, const char*, int, Stream);
extern template void run_rows<half, float>(const RowsCall&, const char*, int, Stream);
extern template void run_rows<bf16, float>(const RowsCall&, const char*, int, Stream);

struct Wgmma {
  static bool supports(const RowsCall& call, Why& why) {
    return operands_are_copied(call, why) && are_walked(call, why);
  }

  static void run(const RowsCall& call, const Context& context) {
    const int multiprocessors = device_facts().multiprocessors;
    with_dtypes<kHalves>(call, [&]<class T, class Out>() {
      run_rows<T, Out>(call, "grouped_gemm/wgmma", multiprocessors, context.stream);
    });
  }
};

}  // namespace ws::grouped_gemm
