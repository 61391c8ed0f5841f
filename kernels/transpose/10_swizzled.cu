// Idea: 16 bytes an access on both sides of both memories, whatever an element has: words of y are
//   made in registers (wide_tile.hpp), and a swizzle takes the padding's place.
// From merged_write: elements of 1 and 2 bytes move by fours and twos, rows of the tile begin at
//   multiples of 16 bytes, and a thread has four loads in flight before it stores the first.
// Traffic: every byte once; pieces of rows are 128 to 512 bytes long. No bank conflicts.
// Limits: a batch of matrices whose rows are whole pieces of 16 bytes in both tensors.
#include "kernels/transpose/tiles.hpp"
#include "kernels/transpose/wide_tile.hpp"
#include "warpsmith/launch.hpp"

namespace ws::transpose {
namespace {

template <class T>
struct SwizzledKernel {
  using Tile = WideTile<T>;
  static constexpr int kThreads = Tile::kThreads;
  static constexpr int kMinBlocks = 6;
  struct Arguments {
    const T* x;
    T* y;
    Matrices matrices;
    Tiles tiles;
  };
  struct SharedStorage {
    typename Tile::Storage tile;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const Matrices& m = a.matrices;
    const auto tile = a.tiles.in_order_of_y(static_cast<uint32_t>(block_index()));
    const int64_t first_row = int64_t{tile.row} * Tile::kRows;
    const int64_t first_column = int64_t{tile.column} * Tile::kColumns;
    const int64_t rows = m.rows - first_row;  // that are left, the tile's and more
    const int64_t columns = m.columns - first_column;
    const T* x = a.x + tile.matrix * m.x_batch + first_row * m.x_pitch + first_column;
    T* y = a.y + tile.matrix * m.y_batch + first_column * m.y_pitch + first_row;
    transpose_tile<T>(
        shared.tile, rows, columns,
        [&](int row, int column) { return x + row * m.x_pitch + column; },
        [&](int column, int row) { return y + column * m.y_pitch + row; });
  }
};

struct Swizzled {
  static bool supports(const Permutation& call, Why& why) {
    return are_matrices(call, why) && has_whole_columns(call, 16 / call.element_bytes, why);
  }
  static void run(const Permutation& call, const Context& context) {
    const Matrices m = matrices_of(call);
    with_element(call.element_bytes, [&]<class T>() {
      using Kernel = SwizzledKernel<T>;
      const Tiles tiles(m, Kernel::Tile::kRows, Kernel::Tile::kColumns);
      launch<Kernel>({.blocks = m.batch * tiles.count(), .threads = Kernel::kThreads},
                     context.stream,
                     {static_cast<const T*>(call.x), static_cast<T*>(call.y), m, tiles});
    });
  }
};

}  // namespace

extern const Rung kSwizzled;
constinit const Rung kSwizzled = rung_of<Swizzled, Transpose, Permute>({
    .name = "swizzled",
    .from = "merged_write",
    .idea = "16 bytes an access everywhere: words turned in registers, a swizzle for the padding",
});

}  // namespace ws::transpose
