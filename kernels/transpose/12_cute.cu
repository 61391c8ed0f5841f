// Idea: the same in CuTe's words, NVIDIA's C++ of layouts: a transpose is a copy between two
//   tensors over one memory whose layouts name its coordinates the other way round.
// From swizzled: tiles, a swizzled layout and 16-byte loads by tiled copies; no index is computed
//   by hand. The corner is turned by the view of the tile that is written: element by element.
// Traffic: every byte once, 16 bytes a read, 32 elements of a row of y a warp's store.
// Limits: one dense matrix of f32 or 16-bit elements, columns in pieces of 16 bytes. Needs the
//   headers of CUTLASS, which CMake looks for (CUTLASS_INCLUDE), and a GPU.
// Long: both copies are told by layouts, which stand above them.
#include "kernels/transpose/tiles.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"

#ifdef WS_HAS_CUTE
#include <cute/tensor.hpp>
#endif

namespace ws::transpose {
#ifdef WS_HAS_CUTE
namespace {

using cute::_;
using cute::Int;
using cute::Layout;
using cute::Shape;
using cute::Stride;

template <class T>
struct CuteKernel {
  static constexpr int kTile = 64;
  static constexpr int kThreads = 256;
  static constexpr int kWidth = 16 / static_cast<int>(sizeof(T));

  // A tile of x, whose pieces of 16 bytes trade places from row to row; and the same, read as y.
  using Rows = Layout<Shape<Int<kTile>, Int<kTile>>, Stride<Int<kTile>, Int<1>>>;
  using Turned = Layout<Shape<Int<kTile>, Int<kTile>>, Stride<Int<1>, Int<kTile>>>;
  using Pieces = cute::Swizzle<3, sizeof(T) == 4 ? 2 : 3, 3>;
  using TileOfX = decltype(cute::composition(Pieces{}, Rows{}));
  using TileOfY = decltype(cute::composition(Pieces{}, Turned{}));

  // Rows of x by pieces; rows of y by elements, a warp 32 of them.
  using CopyIn = decltype(cute::make_tiled_copy(
      cute::Copy_Atom<cute::UniversalCopy<cute::uint128_t>, T>{},
      Layout<Shape<Int<kThreads * kWidth / kTile>, Int<kTile / kWidth>>,
             Stride<Int<kTile / kWidth>, Int<1>>>{},
      Layout<Shape<Int<1>, Int<kWidth>>>{}));
  using CopyOut = decltype(cute::make_tiled_copy(
      cute::Copy_Atom<cute::UniversalCopy<T>, T>{},
      Layout<Shape<Int<kThreads / 32>, Int<32>>, Stride<Int<32>, Int<1>>>{},
      Layout<Shape<Int<1>, Int<1>>>{}));

  struct Arguments {
    const T* x;
    T* y;
    int rows;
    int columns;
    Tiles tiles;
  };
  struct SharedStorage {
    SharedArray<T, kTile * kTile, 128> tile;
  };

  // Copies what of `from` lies inside a matrix of `height` rows and `width` columns.
  template <class Copy, class From, class To>
  __device__ static void copy_inside(const From& from, To&& to, int height, int width) {
    const auto mine = Copy{}.get_slice(thread_index());
    const auto source = mine.partition_S(from);
    auto target = mine.partition_D(to);
    const auto place =
        mine.partition_S(cute::make_identity_tensor(Shape<Int<kTile>, Int<kTile>>{}));
    CUTE_UNROLL
    for (int i = 0; i < cute::size<1>(source); ++i) {
      CUTE_UNROLL
      for (int j = 0; j < cute::size<2>(source); ++j) {
        const auto at = place(cute::Int<0>{}, i, j);
        if (cute::get<0>(at) < height && cute::get<1>(at) < width) {
          cute::copy(Copy{}, source(_, i, j), target(_, i, j));
        }
      }
    }
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const auto block = static_cast<uint32_t>(block_index());
    const int down = static_cast<int>(block / a.tiles.across);
    const int across = static_cast<int>(block % a.tiles.across);
    const auto shape = Shape<Int<kTile>, Int<kTile>>{};
    const auto x = cute::make_tensor(cute::make_gmem_ptr(a.x), cute::make_shape(a.rows, a.columns),
                                     cute::make_stride(int64_t{a.columns}, Int<1>{}));
    const auto y = cute::make_tensor(cute::make_gmem_ptr(a.y), cute::make_shape(a.columns, a.rows),
                                     cute::make_stride(int64_t{a.rows}, Int<1>{}));
    const auto from = cute::local_tile(x, shape, cute::make_coord(down, across));
    const auto to = cute::local_tile(y, shape, cute::make_coord(across, down));
    const auto as_x = cute::make_tensor(cute::make_smem_ptr(shared.tile.pointer()), TileOfX{});
    const auto as_y = cute::make_tensor(cute::make_smem_ptr(shared.tile.pointer()), TileOfY{});
    const int rows = a.rows - down * kTile;
    const int columns = a.columns - across * kTile;
    copy_inside<CopyIn>(from, as_x, rows, columns);
    ptx::barrier_sync();
    copy_inside<CopyOut>(as_y, to, columns, rows);
  }
};

}  // namespace
#endif

struct Cute {
  static bool supports(const Permutation& call, Why& why) {
#ifdef WS_HAS_CUTE
    constexpr int64_t kMost = int64_t{1} << 30;
    const Matrices m = matrices_of(call);
    return is_matrix(call, why) &&
           why.unless(call.element_bytes == 2 || call.element_bytes == 4,
                      "takes elements of 2 and 4 bytes, not ", call.element_bytes) &&
           has_whole_columns(call, 16 / call.element_bytes, why) &&
           why.unless(m.rows < kMost && m.columns < kMost, "takes up to ", kMost,
                      " rows and columns, not ", m.rows, " and ", m.columns);
#else
    static_cast<void>(call);
    return why.unless(false,
                      "was not built: there were no headers of CUTLASS, see CUTLASS_INCLUDE");
#endif
  }
  static void run(const Permutation& call, const Context& context) {
#ifdef WS_HAS_CUTE
    const Matrices m = matrices_of(call);
    const auto launch_for = [&]<class T>() {
      using Kernel = CuteKernel<T>;
      const Tiles tiles(m, Kernel::kTile, Kernel::kTile);
      launch<Kernel>({.blocks = tiles.count(), .threads = Kernel::kThreads}, context.stream,
                     {static_cast<const T*>(call.x), static_cast<T*>(call.y),
                      static_cast<int>(m.rows), static_cast<int>(m.columns), tiles});
    };
    if (call.element_bytes == 2) {
      launch_for.template operator()<uint16_t>();
    } else {
      launch_for.template operator()<uint32_t>();
    }
#else
    static_cast<void>(call);
    static_cast<void>(context);
#endif
  }
};

inline constexpr Seed kCuteSeeds[] = {{"{}_cute"}};

extern const Rung kCute;
constinit const Rung kCute = rung_of<Cute, kHalves | DTypes{DType::kF32}, Transpose>({
    .name = "cute",
    .from = "swizzled",
    .idea = "tiles, swizzle and 16-byte loads in CuTe's words: two layouts of one memory",
    .seeds = kCuteSeeds,
    .gpu_only = true,
});

}  // namespace ws::transpose
