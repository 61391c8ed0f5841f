// Idea: the same ideas in CuTe's words, NVIDIA's C++ of layouts: a layout says where element (i, j)
//   lies, a tiled copy or a tiled MMA which thread has it, and algorithms follow from the two.
// From mma_bands: a ring of stages by cp.async, a swizzled layout, ldmatrix and m16n8k16, and tiles
//   in bands, as there. No index is computed by hand: partitions of tensors give them.
// Traffic: M N K (1 / 128 + 1 / 128) elements from L2.
// Limits: f16; layout nt (BLAS's TN), rows aligned to 16 bytes, N and K multiples of 8. Needs the
//   headers of CUTLASS, which CMake looks for (CUTLASS_INCLUDE), and a GPU.
#include "kernels/gemm/dispatch.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"

#ifdef WS_HAS_CUTE
#include <cute/tensor.hpp>
#endif

namespace ws::gemm {
#ifdef WS_HAS_CUTE
namespace {

using cute::_;
using cute::Int;
using cute::Layout;
using cute::Shape;
using cute::Stride;

// Long: copies, products and the write of C are told by one set of layouts, which stand above them.
struct CuteKernel {
  using Element = cute::half_t;
  static constexpr int kTileM = 128;
  static constexpr int kTileN = 128;
  static constexpr int kTileK = 64;
  static constexpr int kStages = 3;
  static constexpr int kThreads = 128;
  static constexpr int kMinBlocks = 2;

  // Rows of 64 elements, whose eight pieces of 16 bytes are permuted from row to row.
  using Rows = decltype(cute::composition(
      cute::Swizzle<3, 3, 3>{}, Layout<Shape<Int<8>, Int<64>>, Stride<Int<64>, Int<1>>>{}));
  using TilesA =
      decltype(cute::tile_to_shape(Rows{}, Shape<Int<kTileM>, Int<kTileK>, Int<kStages>>{}));
  using TilesB =
      decltype(cute::tile_to_shape(Rows{}, Shape<Int<kTileN>, Int<kTileK>, Int<kStages>>{}));
  using TileC = decltype(cute::tile_to_shape(Rows{}, Shape<Int<kTileM>, Int<kTileN>>{}));

  // 2 x 2 warps, each with two neighbouring m16n8k16 across, as ldmatrix.x4 fetches B.
  using Product = decltype(cute::make_tiled_mma(cute::SM80_16x8x16_F32F16F16F32_TN{},
                                                Layout<Shape<Int<2>, Int<2>, Int<1>>>{},
                                                cute::Tile<Int<32>, Int<32>, Int<16>>{}));
  // 16 rows at a time, a row by eight threads of 16 bytes each.
  using ThreadsOfCopy = Layout<Shape<Int<16>, Int<8>>, Stride<Int<8>, Int<1>>>;
  using Piece = Layout<Shape<Int<1>, Int<8>>>;
  using CopyIn = decltype(cute::make_tiled_copy(
      cute::Copy_Atom<cute::SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<cute::uint128_t>, Element>{},
      ThreadsOfCopy{}, Piece{}));
  using CopyOut = decltype(cute::make_tiled_copy(
      cute::Copy_Atom<cute::UniversalCopy<cute::uint128_t>, Element>{}, ThreadsOfCopy{}, Piece{}));
  using ToFragment = cute::Copy_Atom<cute::SM75_U32x4_LDSM_N, Element>;
  using FromFragment = cute::Copy_Atom<cute::UniversalCopy<uint32_t>, Element>;

  using Arguments = CopiedArguments<half>;
  struct SharedStorage {
    SharedArray<half, kStages * kTileM * kTileK, 128> a;  // C's tile afterwards
    SharedArray<half, kStages * kTileN * kTileK, 128> b;
  };
  static_assert(kTileM * kTileN <= kStages * kTileM * kTileK, "C's tile fits into A's");

  template <class T>
  __device__ static Element* elements(T* pointer) {
    return reinterpret_cast<Element*>(const_cast<half*>(pointer));
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const tile::TileIndex tile = g.raster.at(static_cast<int>(block_index()));
    // The matrices, and of each the tiles of this block: (row, k, number of the tile in K).
    const auto all_a =
        cute::make_tensor(cute::make_gmem_ptr(elements(g.a)), cute::make_shape(g.m, g.k),
                          cute::make_stride(int64_t{g.a_leading}, Int<1>{}));
    const auto all_b =
        cute::make_tensor(cute::make_gmem_ptr(elements(g.b)), cute::make_shape(g.n, g.k),
                          cute::make_stride(int64_t{g.b_leading}, Int<1>{}));
    const auto all_c =
        cute::make_tensor(cute::make_gmem_ptr(elements(g.c)), cute::make_shape(g.m, g.n),
                          cute::make_stride(g.c_leading, Int<1>{}));
    const auto shape_a = Shape<Int<kTileM>, Int<kTileK>>{};
    const auto shape_b = Shape<Int<kTileN>, Int<kTileK>>{};
    const auto tiles_a = cute::local_tile(all_a, shape_a, cute::make_coord(tile.m, _));
    const auto tiles_b = cute::local_tile(all_b, shape_b, cute::make_coord(tile.n, _));
    const auto staged_a =
        cute::make_tensor(cute::make_smem_ptr(elements(shared.a.pointer())), TilesA{});
    const auto staged_b =
        cute::make_tensor(cute::make_smem_ptr(elements(shared.b.pointer())), TilesB{});

    // What this thread copies, and where it lies in its tile: (piece, row, k, tile or stage).
    const auto copy_in = CopyIn{}.get_slice(thread_index());
    const auto from_a = copy_in.partition_S(tiles_a);
    const auto from_b = copy_in.partition_S(tiles_b);
    const auto to_a = copy_in.partition_D(staged_a);
    const auto to_b = copy_in.partition_D(staged_b);
    const auto place_a = copy_in.partition_S(cute::make_identity_tensor(shape_a));
    const auto place_b = copy_in.partition_S(cute::make_identity_tensor(shape_b));
    const int tiles = cute::size<2>(tiles_a);
    const auto copy_tile = [&](int number, int stage) {
      if (number < tiles) {
        // Outside of the matrices: zeros.
        const auto copy = [&](const auto& from, const auto& to, const auto& place, int rows) {
          const int depth = g.k - number * kTileK;
          CUTE_UNROLL
          for (int i = 0; i < cute::size<1>(to); ++i) {
            CUTE_UNROLL
            for (int k = 0; k < cute::size<2>(to); ++k) {
              const auto at = place(cute::Int<0>{}, i, k);
              const bool exists = cute::get<0>(at) < rows && cute::get<1>(at) < depth;
              cute::copy(CopyIn{}.with(exists), from(_, i, k, number), to(_, i, k, stage));
            }
          }
        };
        copy(from_a, to_a, place_a, g.m - tile.m * kTileM);
        copy(from_b, to_b, place_b, g.n - tile.n * kTileN);
      }
      cute::cp_async_fence();
    };
    for (int stage = 0; stage < kStages - 1; ++stage) copy_tile(stage, stage);

    // What it multiplies: fragments, and the ldmatrix view of the stages and of the fragments.
    const Product product;
    const auto part = product.get_slice(thread_index());
    auto a = part.partition_fragment_A(staged_a(_, _, 0));
    auto b = part.partition_fragment_B(staged_b(_, _, 0));
    auto sums = cute::partition_fragment_C(product, Shape<Int<kTileM>, Int<kTileN>>{});
    cute::clear(sums);
    const auto load_a = cute::make_tiled_copy_A(ToFragment{}, product);
    const auto load_b = cute::make_tiled_copy_B(ToFragment{}, product);
    const auto part_a = load_a.get_slice(thread_index());
    const auto part_b = load_b.get_slice(thread_index());
    const auto shared_a = part_a.partition_S(staged_a);
    const auto shared_b = part_b.partition_S(staged_b);
    auto view_a = part_a.retile_D(a);
    auto view_b = part_b.retile_D(b);

    int stage = 0;
    for (int number = 0; number < tiles; ++number) {
      cute::cp_async_wait<kStages - 2>();
      ptx::barrier_sync();  // this stage has landed, and nobody reads the one before any more
      copy_tile(number + kStages - 1, (stage + kStages - 1) % kStages);
      CUTE_UNROLL
      for (int k = 0; k < cute::size<2>(a); ++k) {
        cute::copy(load_a, shared_a(_, _, k, stage), view_a(_, _, k));
        cute::copy(load_b, shared_b(_, _, k, stage), view_b(_, _, k));
        cute::gemm(product, a(_, _, k), b(_, _, k), sums);
      }
      stage = (stage + 1) % kStages;
    }

    // C through shared memory: fragments to a tile, rows of it to memory, 16 bytes a thread.
    cute::cp_async_wait<0>();
    ptx::barrier_sync();
    const auto tile_c =
        cute::make_tensor(cute::make_smem_ptr(elements(shared.a.pointer())), TileC{});
    const auto store = cute::make_tiled_copy_C(FromFragment{}, product);
    const auto part_c = store.get_slice(thread_index());
    auto rounded = cute::make_tensor_like<Element>(sums);
    CUTE_UNROLL
    for (int i = 0; i < cute::size(sums); ++i) rounded(i) = Element(sums(i));
    cute::copy(store, part_c.retile_S(rounded), part_c.partition_D(tile_c));
    ptx::barrier_sync();
    const auto shape_c = Shape<Int<kTileM>, Int<kTileN>>{};
    const auto out = cute::local_tile(all_c, shape_c, cute::make_coord(tile.m, tile.n));
    const auto copy_out = CopyOut{}.get_slice(thread_index());
    const auto from_c = copy_out.partition_S(tile_c);
    const auto to_c = copy_out.partition_D(out);
    const auto place_c = copy_out.partition_S(cute::make_identity_tensor(shape_c));
    CUTE_UNROLL
    for (int i = 0; i < cute::size<1>(to_c); ++i) {
      CUTE_UNROLL
      for (int j = 0; j < cute::size<2>(to_c); ++j) {
        const auto at = place_c(cute::Int<0>{}, i, j);
        if (cute::get<0>(at) < g.m - tile.m * kTileM && cute::get<1>(at) < g.n - tile.n * kTileN) {
          cute::copy(CopyOut{}, from_c(_, i, j), to_c(_, i, j));
        }
      }
    }
  }
};

}  // namespace
#endif

struct Cute {
  static bool supports(const Call& call, Why& why) {
#ifdef WS_HAS_CUTE
    return runs_supported(call, why) &&
           why.unless(
               call.a.contiguous == Contiguous::kColumns && call.b.contiguous == Contiguous::kRows,
               "needs layout nt") &&
           why.unless(call.n % 8 == 0 && call.k % 8 == 0, "N and K must be multiples of 8") &&
           why.unless(copy_bytes_of(call) == 16 && alignment_of(call.c, call.dtype) == 16,
                      "rows of a, b and c must start at multiples of 16 bytes");
#else
    static_cast<void>(call);
    return why.unless(false,
                      "was not built: there were no headers of CUTLASS, see CUTLASS_INCLUDE");
#endif
  }
  static void run(const Call& call, const Context& context) {
#ifdef WS_HAS_CUTE
    const tile::Raster raster = raster_of(call, CuteKernel::kTileM, CuteKernel::kTileN);
    launch<CuteKernel>({.blocks = raster.count(), .threads = CuteKernel::kThreads}, context.stream,
                       {call, raster, 16});
#else
    static_cast<void>(call);
    static_cast<void>(context);
#endif
  }
};

inline constexpr Seed kCuteSeeds[] = {{.name = "hgemm_mma_stages_block_swizzle_tn_cute"}};

extern const Rung kCute;
constinit const Rung kCute = rung_of<Cute, DTypes{DType::kF16}, Gemm>({
    .name = "cute",
    .from = "mma_bands",
    .idea = "stages, swizzle, ldmatrix and mma in CuTe's words: layouts, tiled copies, a tiled MMA",
    .seeds = kCuteSeeds,
    .gpu_only = true,
});

}  // namespace ws::gemm
