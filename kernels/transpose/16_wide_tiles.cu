// Idea: planned tiles in pieces of 16 bytes: swizzled's tile, whose rows and columns may each be
//   several dimensions.
// From tiles, swizzled: offsets of the plan, the way through registers and shared memory of
//   swizzled. Where a dimension has 32 elements the tile takes two or four steps of the next.
// Traffic: every byte once, in pieces of 16 bytes to 512.
// Limits: the fast dimensions of both tensors side by side, in whole pieces of 16 bytes; all else
//   at multiples of as many.
#include "catalogue/row_layout.hpp"
#include "kernels/transpose/tile_walk.hpp"
#include "kernels/transpose/wide_tile.hpp"
#include "warpsmith/launch.hpp"

namespace ws::transpose {
namespace {

template <class T>
struct WideTilesKernel {
  using Tile = WideTile<T>;
  static constexpr int kThreads = Tile::kThreads;
  static constexpr int kMinBlocks = 6;
  struct Arguments {
    const T* x;
    T* y;
    TileWalk walk;
  };
  struct SharedStorage {
    typename Tile::Storage tile;
    SideOffsets<T, Tile::kColumns> columns;
    SideOffsets<T, Tile::kRows> rows;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const TilePart part(a.walk, block_index());
    shared.columns.template fill<kThreads>(a.walk.columns);
    shared.rows.template fill<kThreads>(a.walk.rows);
    ptx::barrier_sync();
    const T* x = a.x + part.first.x;
    T* y = a.y + part.first.y;
    transpose_tile<T>(
        shared.tile, part.rows, part.columns,
        [&](int row, int column) {
          return beyond(x, shared.rows.x[row] + shared.columns.x[column]);
        },
        [&](int column, int row) {
          return beyond(y, shared.columns.y[column] + shared.rows.y[row]);
        });
  }
};

struct WideTiles {
  static bool supports(const Permutation& call, Why& why) {
    const TilePlan plan = plan_tiles(call, wide_shape(call.element_bytes));
    return why.unless(plan.tiles > 0 && plan.tiles <= kMostBlocks, "takes up to ", kMostBlocks,
                      " tiles and another fast loop in x than in y, not ", plan.tiles) &&
           why.unless(is_whole(call, plan),
                      "takes fast dimensions and strides in whole pieces of 16 bytes");
  }
  // Whether a piece of either side lies side by side, and all pieces at multiples of 16 bytes.
  static bool is_whole(const Permutation& call, const TilePlan& plan) {
    const int64_t width = 16 / call.element_bytes;
    const Loop& column = plan.columns.loop[0];
    const Loop& row = plan.rows.loop[0];
    bool whole = plan.run == 1 && column.strides[kX] == 1 && row.strides[kY] == 1 &&
                 column.extent % width == 0 && row.extent % width == 0 &&
                 reinterpret_cast<intptr_t>(call.x) % 16 == 0 &&
                 reinterpret_cast<intptr_t>(call.y) % 16 == 0;
    for (size_t i = 0; i < call.rank; ++i) {
      const auto& strides = call.loops[i].strides;
      if (strides[kX] == 1 || strides[kY] == 1) whole &= call.loops[i].extent % width == 0;
      whole &= strides[kX] == 1 || strides[kX] % width == 0;
      whole &= strides[kY] == 1 || strides[kY] % width == 0;
    }
    return whole;
  }
  static void run(const Permutation& call, const Context& context) {
    const TilePlan plan = plan_tiles(call, wide_shape(call.element_bytes));
    with_element(call.element_bytes, [&]<class T>() {
      using Kernel = WideTilesKernel<T>;
      launch<Kernel>({.blocks = plan.tiles, .threads = Kernel::kThreads}, context.stream,
                     {static_cast<const T*>(call.x), static_cast<T*>(call.y), TileWalk(plan)});
    });
  }
};

}  // namespace

extern const Rung kWideTiles;
constinit const Rung kWideTiles = rung_of<WideTiles, Transpose, Permute>({
    .name = "wide_tiles",
    .from = "tiles",
    .idea = "planned tiles in pieces of 16 bytes, turned as swizzled turns them",
});

}  // namespace ws::transpose
