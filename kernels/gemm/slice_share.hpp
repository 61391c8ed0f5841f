// What a thread has of a slice of A and one of B on their way through registers, in pieces of 16
// bytes. For the tiles of 256 threads and 128 rows: QuadTile, and what has its members.
#pragma once

#include "kernels/gemm/plain.hpp"

#if WS_DEVICE_CODE
namespace ws::gemm {

template <class T, class Tile, int kSlice>
struct SliceShare {
  using Element = typename Tile::Element;
  static constexpr int kWidth = 16 / sizeof(T);
  // Neighbouring threads' pieces of A are neighbours in a row where there are two of them to a
  // sector. Else they are in neighbouring rows, and so in different banks when they are transposed;
  // the other half of the sector is another warp's.
  static constexpr int kLanesA = kWidth == 4 ? 2 : 1;
  static constexpr int kPiecesA = Tile::kTileM * kSlice / (Tile::kThreads * kWidth);
  static constexpr int kLanesB = Tile::kTileN / kWidth;
  static constexpr int kRowsB = Tile::kThreads / kLanesB;
  static constexpr int kPiecesB = kSlice / kRowsB;
  static_assert(Tile::kThreads == 2 * Tile::kTileM && kSlice % (2 * kWidth) == 0);
  static_assert(kSlice % kRowsB == 0);

  // A piece in memory: `left` of its row's elements are left, and `whole` says whether 16 bytes of
  // it are one access.
  struct Source {
    const T* from;
    int left;
    bool whole;
  };

  // Piece i's first element in its slice.
  __device__ __forceinline__ static int row_a() {
    return kLanesA == 2 ? thread_index() / 2 : thread_index() % Tile::kTileM;
  }
  __device__ __forceinline__ static int k_a(int i) {
    const int lane = kLanesA == 2 ? thread_index() % 2 : thread_index() / Tile::kTileM;
    return i * 2 * kWidth + lane * kWidth;
  }
  __device__ __forceinline__ static int k_b(int i) { return i * kRowsB + thread_index() / kLanesB; }
  __device__ __forceinline__ static int column_b() { return thread_index() % kLanesB * kWidth; }

  __device__ __forceinline__ static Source source_a(const PlainArguments<T>& g, int first_row,
                                                    int slice, int i) {
    const int row = first_row + row_a();
    const int k = slice + k_a(i);
    return {g.a + int64_t{row} * g.k + k, row < g.m ? g.k - k : 0, g.a_aligned};
  }
  __device__ __forceinline__ static Source source_b(const PlainArguments<T>& g, int first_column,
                                                    int slice, int i) {
    const int k = slice + k_b(i);
    const int column = first_column + column_b();
    return {g.b + int64_t{k} * g.n + column, k < g.k ? g.n - column : 0, g.b_aligned};
  }

  // Into the tile's slices, which convert it: not before, for that would wait for the load.
  __device__ __forceinline__ static void store_a(SharedSpan<Element> to, int i,
                                                 const Vec<T, kWidth>& piece WS_AND_PLACE) {
    Tile::store_a(to, row_a(), k_a(i), piece WS_PASS_AND_PLACE);
  }
  __device__ __forceinline__ static void store_b(SharedSpan<Element> to, int i,
                                                 const Vec<T, kWidth>& piece WS_AND_PLACE) {
    Tile::store_b(to, k_b(i), column_b(), piece WS_PASS_AND_PLACE);
  }

  // Of the slices that begin at `slice` of K, of the tile at `first`.
  __device__ __forceinline__ void load(const PlainArguments<T>& g, TilePlace first,
                                       int slice WS_AND_PLACE) {
#pragma unroll
    for (int i = 0; i < kPiecesA; ++i) {
      const Source at = source_a(g, first.row, slice, i);
      a[i] = load_piece<kWidth>(at.from, at.left, at.whole WS_PASS_AND_PLACE);
    }
#pragma unroll
    for (int i = 0; i < kPiecesB; ++i) {
      const Source at = source_b(g, first.column, slice, i);
      b[i] = load_piece<kWidth>(at.from, at.left, at.whole WS_PASS_AND_PLACE);
    }
  }
  __device__ __forceinline__ void store(SharedSpan<Element> to_a,
                                        SharedSpan<Element> to_b WS_AND_PLACE) const {
#pragma unroll
    for (int i = 0; i < kPiecesA; ++i) store_a(to_a, i, a[i] WS_PASS_AND_PLACE);
#pragma unroll
    for (int i = 0; i < kPiecesB; ++i) store_b(to_b, i, b[i] WS_PASS_AND_PLACE);
  }

  Vec<T, kWidth> a[kPiecesA];
  Vec<T, kWidth> b[kPiecesB];
};

}  // namespace ws::gemm
#endif
