// A tile on its way through shared memory, turned around in registers: pieces of 16 bytes of rows
// of x come in, pieces of 16 bytes of rows of y go out.
//
// Shared memory is banked by words of 4 bytes. A thread that brings pieces of as many rows as a
// word has elements can make words of y out of them (thread/transpose.hpp), and stores those one by
// one; a warp's words, of 8 pieces side by side and 4 such groups of rows, lie in 32 banks because
// pieces of a row of the tile trade places with the row's number: no padding, so that all rows
// begin at multiples of 16 bytes and are read in pieces.
#pragma once

#include "kernels/transpose/plan.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/thread/transpose.hpp"

#if WS_DEVICE_CODE
namespace ws::transpose {

template <class T, WideShape kShape = WideShape::of(sizeof(T))>
struct WideTile {
  static constexpr int kBytes = sizeof(T);
  static constexpr int kThreads = 256;
  static constexpr int kRows = kShape.rows;
  static constexpr int kColumns = kShape.columns;

  using Word = std::conditional_t<kBytes == 8, uint64_t, uint32_t>;
  static constexpr int kWordsOfPiece = 16 / static_cast<int>(sizeof(Word));
  using Piece = Vec<Word, kWordsOfPiece>;
  static constexpr int kWidth = 16 / kBytes;                       // elements of a piece
  static constexpr int kGroup = thread::elements_of_word(kBytes);  // rows of x that meet in words
  static constexpr int kGroups = kRows / kGroup;
  static constexpr int kPiecesIn = kColumns / kWidth;               // of a row of x
  static constexpr int kPiecesOut = kRows / kWidth;                 // of a row of y
  static constexpr int kUnits = kGroups * kPiecesIn / kThreads;     // of a thread, on the way in
  static constexpr int kStores = kColumns * kPiecesOut / kThreads;  // of a thread, on the way out
  static_assert(kPiecesIn % 8 == 0 && kPiecesOut % 8 == 0, "eight pieces are all banks");
  static constexpr int kColumnsAtOnce = kThreads / kPiecesOut;
  static_assert(kUnits * kThreads == kGroups * kPiecesIn &&
                kStores * kThreads == kColumns * kPiecesOut);
  static_assert(kGroups % (kThreads / 8) == 0 && kThreads % kPiecesOut == 0 &&
                    kColumnsAtOnce % kWidth == 0 && (kGroups == kThreads / 8 || kWordsOfPiece == 4),
                "from one of a thread's units and stores to the next is the same way for all");

  using Storage = SharedArray<Word, kColumns * kGroups, 128>;

  // The unit's rows begin at group() * kGroup, its columns at piece() * kWidth: lanes take 8 pieces
  // of 4 groups.
  struct Unit {
    int group;
    int piece;
  };
  __device__ __forceinline__ static Unit unit(int n) {
    const int before = n * (kThreads / 8);  // eights of lanes
    return {before % kGroups + thread_index() / 8, before / kGroups * 8 + thread_index() % 8};
  }
  // Of a row of y, a column of x: the piece that begins at row x_row().
  struct Store {
    int column;
    int piece;
    __device__ __forceinline__ int row() const { return piece * kWidth; }
  };
  __device__ __forceinline__ static Store place(int n) {
    return {n * kColumnsAtOnce + thread_index() / kPiecesOut, thread_index() % kPiecesOut};
  }

  __device__ __forceinline__ static Piece load(const T* x) {
    return thread::load<kWordsOfPiece>(reinterpret_cast<const Word*>(x));
  }
  __device__ __forceinline__ static void store(T* y, const Piece& piece) {
    thread::store(reinterpret_cast<Word*>(y), piece);
  }

  // Where piece `piece` of the row that is column `column` lies, in words.
  __device__ __forceinline__ static int at(int column, int piece) {
    return column * kGroups + (piece ^ (column / kWidth % 8)) * kWordsOfPiece;
  }
  // The rows of unit n, as words of y's rows. One of a thread's units is a constant apart from the
  // next, for the swizzle permutes eight pieces among themselves; so is a word from that of another
  // column of the same piece.
  template <class Tile>
  __device__ __forceinline__ static void put(Tile& tile, int n, const Piece (&rows)[kGroup]) {
    const Unit zero = unit(0);
    const int before = n * (kThreads / 8);
    const int first = at(zero.piece * kWidth, zero.group / kWordsOfPiece) +
                      zero.group % kWordsOfPiece + before % kGroups +
                      before / kGroups * 8 * kWidth * kGroups;
#pragma unroll
    for (int i = 0; i < kWordsOfPiece; ++i) {
      Word square[kGroup];
#pragma unroll
      for (int row = 0; row < kGroup; ++row) square[row] = rows[row][i];
      thread::transpose_square<kBytes>(square);
#pragma unroll
      for (int j = 0; j < kGroup; ++j) tile[first + (i * kGroup + j) * kGroups] = square[j];
    }
  }
  // The piece of place n, or so many pieces further on. From one of a thread's places to the next a
  // constant has its part in the swizzle.
  template <class Tile>
  __device__ __forceinline__ static Piece take(Tile& tile, int n, int pieces_on = 0) {
    const Store zero = place(0);
    const int before = n * kColumnsAtOnce;
    return tile.template load<kWordsOfPiece>(
        (at(zero.column, zero.piece + pieces_on) ^ (before / kWidth % 8 * kWordsOfPiece)) +
        before * kGroups);
  }
};

// Turns around the part of a tile that exists, its first rows and columns: whole pieces of both.
// x_at(row, column) and y_at(column, row) say where a piece lies.
template <class T, class XAt, class YAt>
__device__ __forceinline__ void transpose_tile(typename WideTile<T>::Storage& storage, int64_t rows,
                                               int64_t columns, const XAt& x_at, const YAt& y_at) {
  using Tile = WideTile<T>;
  const auto is_inside = [&](typename Tile::Unit unit) {
    return unit.group * Tile::kGroup < rows && unit.piece * Tile::kWidth < columns;
  };
  // All loads before the first store: they are what is in flight. Where there is nothing the first
  // rows are loaded again: of a load under a condition the compiler makes a copy, and waits for it.
  typename Tile::Piece pieces[Tile::kUnits][Tile::kGroup];
#pragma unroll
  for (int n = 0; n < Tile::kUnits; ++n) {
    const auto unit = is_inside(Tile::unit(n)) ? Tile::unit(n) : typename Tile::Unit{0, 0};
#pragma unroll
    for (int i = 0; i < Tile::kGroup; ++i) {
      pieces[n][i] = Tile::load(x_at(unit.group * Tile::kGroup + i, unit.piece * Tile::kWidth));
    }
  }
#pragma unroll
  for (int n = 0; n < Tile::kUnits; ++n) {
    if (is_inside(Tile::unit(n))) Tile::put(storage, n, pieces[n]);
  }
  ptx::barrier_sync();
#pragma unroll
  for (int n = 0; n < Tile::kStores; ++n) {
    const auto to = Tile::place(n);
    if (to.column < columns && to.row() < rows) {
      Tile::store(y_at(to.column, to.row()), Tile::take(storage, n));
    }
  }
}

}  // namespace ws::transpose
#endif
