// Idea: rows that begin anywhere, in pieces of 16 bytes on both sides: copies into shared memory
//   take the whole pieces that cover a row of x, a row of y is cut where its own addresses are
//   multiples of 16, and what is between is shifted in registers, by words and by bits.
// From swizzled: its tile and the way through it, in the place of what was copied; one piece in 16
//   of a tile's rows goes into the differences between rows of y.
// Traffic: x once from memory and up to a third again from the L2, y once: whole pieces, but for
//   both ends of a row.
// Limits: a loop that lies side by side in x and another in y; all others walk from tile to tile.
// Long: tiles that need all pieces, some, or such as reach out of x; and both ends of rows of y.
#include <algorithm>

#include "catalogue/row_layout.hpp"
#include "kernels/transpose/tile_walk.hpp"
#include "kernels/transpose/wide_tile.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/cp_async_kept.hpp"
#include "warpsmith/thread/realign.hpp"

namespace ws::transpose {
namespace {

// What a pointer's address, or that of a row so many elements further on, has beyond a multiple of
// 16.
struct Beyond16 {
  uint32_t first;
  uint32_t pitch;

  template <class T>
  __device__ __forceinline__ Beyond16(const T* from, int64_t pitch)
      : first(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from))),
        pitch(static_cast<uint32_t>(pitch) * static_cast<uint32_t>(sizeof(T))) {}
  __device__ __forceinline__ uint32_t of(int row) const {
    return (first + static_cast<uint32_t>(row) * pitch) % 16;
  }
};

// Which pieces a tile needs: all, some, or such that reach out of x's memory, at its first or last
// element.
enum class Covers { kAll, kSome, kAnywhere };

template <class T>
struct RealignedKernel {
  static constexpr int kBytes = sizeof(T);
  using Tile = WideTile<T, RealignedShape::of(kBytes)>;
  using Piece = typename Tile::Piece;
  static constexpr int kThreads = Tile::kThreads;
  // H200 2026-11-30: with one more of 1 and 8 bytes 1 to 2 % slower. On an A100 five of 2 bytes
  // spilled.
  static constexpr int kMinBlocks = kBytes <= 2 ? 4 : kBytes == 4 ? 6 : 5;
  static constexpr int kWidth = Tile::kWidth;
  static constexpr int kUsefulPieces = RealignedShape::kUsefulPieces;
  static constexpr int kUsefulRows = RealignedShape::useful_rows(kBytes);
  static constexpr int kCover = Tile::kPiecesIn + 1;  // pieces that a row's part lies in, or fewer
  static constexpr int kCopies = Tile::kRows * kCover;

  struct Arguments {
    const T* x;
    T* y;
    const T* x_begin;  // the memory that x has, of which no piece may reach out
    const T* x_end;
    const void* x_valid;  // for copies of nothing: at a multiple of 16
    int64_t rows;
    int64_t columns;
    int64_t x_pitch;
    int64_t y_pitch;
    Walk<kMaxRank> tiles;
    int column_loop;
  };
  // As x has it; then the tile takes its place.
  struct SharedStorage {
    SharedArray<typename Tile::Word, kCopies * Tile::kWordsOfPiece, 128> pieces;
  };

  // A tile. Rows of the tile are counted from its first one that is brought, rows of y's pieces
  // from its first useful one, kWidth - 1 further on.
  struct Part {
    const T* x;  // the tile's first row and column: outside of x, for the first tile
    T* y;        // the first column, and the first useful row
    int columns;
    int begin;  // useful rows that exist; the first ones of other tiles begin before 0
    int end;
    bool is_first;
    int cover;  // pieces that any row's part of the tile's columns lies in

    __device__ __forceinline__ explicit Part(const Arguments& a) {
      int64_t row_part = 0;
      int64_t column_part = 0;
      const Offsets at = a.tiles.at(static_cast<uint32_t>(block_index()), [&](int loop, int index) {
        if (loop == 0) row_part = index;
        if (loop == a.column_loop) column_part = index;
      });
      x = a.x + at.x - (kWidth - 1) * a.x_pitch;
      y = a.y + at.y;
      const int64_t columns_left = a.columns - column_part * Tile::kColumns;
      columns = columns_left < Tile::kColumns ? static_cast<int>(columns_left) : Tile::kColumns;
      is_first = row_part == 0;
      begin = is_first ? 0 : 1 - kWidth;
      const int64_t rows_left = a.rows - row_part * kUsefulRows;
      end = rows_left < Tile::kRows ? static_cast<int>(rows_left) : Tile::kRows;
      cover = divide_up((columns - 1) * kBytes + 16, 16);
    }
    __device__ __forceinline__ bool is_whole() const {
      return !is_first && end > kUsefulRows && cover == kCover;
    }
    // Where the pieces of a row begin.
    __device__ __forceinline__ uintptr_t cover_of(const Arguments& a, int row) const {
      return reinterpret_cast<uintptr_t>(x + static_cast<uint32_t>(row) * a.x_pitch) / 16 * 16;
    }
    // Whether all pieces of all rows are memory of x.
    __device__ __forceinline__ bool lies_inside(const Arguments& a) const {
      const uintptr_t one = cover_of(a, begin + kWidth - 1);
      const uintptr_t other =
          cover_of(a, (end <= kUsefulRows ? end + kWidth - 1 : Tile::kRows) - 1);
      return (one < other ? one : other) >= reinterpret_cast<uintptr_t>(a.x_begin) &&
             (one < other ? other : one) + static_cast<uint32_t>(cover * 16) <=
                 reinterpret_cast<uintptr_t>(a.x_end);
    }
    __device__ __forceinline__ bool has(int row) const { return begin <= row && row < end; }
    __device__ __forceinline__ bool has_piece(int row) const {
      return begin <= row && row + kWidth <= end;
    }
  };

  // A piece of x, of which some bytes may lie outside of its memory.
  __device__ __forceinline__ static void bring_part(SharedStorage& shared, const Arguments& a,
                                                    int to, uintptr_t from) {
    const SharedSpan<T> elements(reinterpret_cast<T*>(shared.pieces.pointer()), kCopies * kWidth);
    const auto* first = reinterpret_cast<const T*>(from);
#pragma unroll 1
    for (int n = 0; n < kWidth; ++n) {
      const bool exists = a.x_begin <= first + n && first + n < a.x_end;
      elements[to * kWidth + n] = exists ? thread::load(first + n) : T{0};
    }
  }
  // The pieces that cover the tile's rows; others are filled with zeros.
  template <Covers kCovers>
  __device__ __forceinline__ static void bring(SharedStorage& shared, const Arguments& a,
                                               const Part& part) {
    const auto x_begin = reinterpret_cast<uintptr_t>(a.x_begin);
    const auto x_end = reinterpret_cast<uintptr_t>(a.x_end);
#pragma unroll(kCovers == Covers::kAnywhere ? 1 : kCopies / kThreads)
    for (int i = thread_index(); i < kCopies; i += kThreads) {
      const int row = i / kCover;
      const int piece = i % kCover;
      const uintptr_t from = part.cover_of(a, row) + static_cast<uint32_t>(piece) * 16;
      const bool exists =
          kCovers == Covers::kAll || (part.has(row - (kWidth - 1)) && piece < part.cover);
      if (kCovers == Covers::kAnywhere && exists && (from < x_begin || x_end < from + 16)) {
        bring_part(shared, a, i, from);
        continue;
      }
      // By way of the L1: two pieces share a sector.
      ptx::cp_async_kept(shared.pieces.pointer(i * Tile::kWordsOfPiece),
                         exists ? reinterpret_cast<const void*>(from) : a.x_valid, exists ? 16 : 0);
    }
  }
  __device__ __forceinline__ static void bring(SharedStorage& shared, const Arguments& a,
                                               const Part& part) {
    if (!part.lies_inside(a)) {
      bring<Covers::kAnywhere>(shared, a, part);
    } else if (part.is_whole()) {
      bring<Covers::kAll>(shared, a, part);
    } else {
      bring<Covers::kSome>(shared, a, part);
    }
    ptx::cp_async_commit_group();
    ptx::cp_async_wait_group<0>();
  }

  // Rows of x become columns of the tile. A thread's rows are a multiple of 16 apart, and begin
  // alike.
  __device__ __forceinline__ static void turn(SharedStorage& shared, const Arguments& a,
                                              const Part& part) {
    const Beyond16 beyond(part.x, a.x_pitch);
    uint32_t shifts[Tile::kGroup];
#pragma unroll
    for (int i = 0; i < Tile::kGroup; ++i) {
      shifts[i] = beyond.of(Tile::unit(0).group * Tile::kGroup + i);
    }
    // All of them, for they are put where others are read.
    Piece rows[Tile::kUnits][Tile::kGroup];
#pragma unroll
    for (int n = 0; n < Tile::kUnits; ++n) {
      const auto unit = Tile::unit(n);
      const int at = (unit.group * Tile::kGroup * kCover + unit.piece) * Tile::kWordsOfPiece;
#pragma unroll
      for (int i = 0; i < Tile::kGroup; ++i) {
        const int first = at + i * kCover * Tile::kWordsOfPiece;
        rows[n][i] = thread::realign<kBytes>(
            shared.pieces.template load<Tile::kWordsOfPiece>(first),
            shared.pieces.template load<Tile::kWordsOfPiece>(first + Tile::kWordsOfPiece),
            shifts[i]);
      }
    }
    ptx::barrier_sync();
#pragma unroll
    for (int n = 0; n < Tile::kUnits; ++n) {
      if (Tile::unit(n).piece * kWidth < part.columns) Tile::put(shared.pieces, n, rows[n]);
    }
  }

  // Whole pieces of rows of y. That which begins at useful row r begins at row r + kWidth - 1 of
  // the tile. A thread's columns are 16 apart: one answer for all of them.
  __device__ __forceinline__ static void take(SharedStorage& shared, const Arguments& a,
                                              const Part& part, const Beyond16& beyond) {
    const auto first = Tile::place(0);
    const uint32_t before = beyond.of(first.column);
    const int row = first.piece * kWidth - static_cast<int>(before) / kBytes;
    if (first.piece == kUsefulPieces || !part.has_piece(row)) return;
    T* y = part.y + first.column * a.y_pitch + row;
#pragma unroll
    for (int n = 0; n < Tile::kStores; ++n) {
      const auto to = Tile::place(n);
      if (to.column >= part.columns) return;
      const Piece piece = thread::realign<kBytes>(
          Tile::take(shared.pieces, n), Tile::take(shared.pieces, n, 1), 16 - kBytes - before);
      Tile::store(y, piece);
      y += Tile::kColumnsAtOnce * a.y_pitch;
    }
  }
  // What a row of y has before its first whole piece and after its last one, by elements: 16 bytes
  // of a row lie side by side among threads.
  __device__ __forceinline__ static void take_ends(SharedStorage& shared, const Arguments& a,
                                                   const Part& part, const Beyond16& beyond) {
    const SharedSpan<T> from(reinterpret_cast<T*>(shared.pieces.pointer()), kCopies * kWidth);
    for (int i = thread_index(); i < part.columns * kWidth; i += kThreads) {
      const int column = i / kWidth;
      const int before = static_cast<int>(beyond.of(column)) / kBytes;
      const auto store_element_of = [&](int piece) {
        const int first = piece * kWidth - before;
        const int row = first + i % kWidth;
        if (part.has_piece(first) || !part.has(row)) return;
        const int in_tile = row + kWidth - 1;
        const T element = from[Tile::at(column, in_tile / kWidth) * (kWidth / Tile::kWordsOfPiece) +
                               in_tile % kWidth];
        thread::store(part.y + column * a.y_pitch + row, element);
      };
      if (part.is_first) store_element_of(0);
      const int last = part.end - 1 + before;
      const bool is_here = last >= 0 && last < kUsefulPieces * kWidth;
      if (is_here && !(part.is_first && last < kWidth)) store_element_of(last / kWidth);
    }
  }

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const Part part(a);
    bring(shared, a, part);
    ptx::barrier_sync();
    turn(shared, a, part);
    ptx::barrier_sync();
    const Beyond16 beyond(part.y, a.y_pitch);
    take(shared, a, part, beyond);
    if (part.is_first || part.end <= kUsefulRows) take_ends(shared, a, part, beyond);
  }
};

struct Realigned {
  static bool supports(const Permutation& call, Why& why) {
    const RealignedPlan plan = plan_realigned(call);
    return why.unless(plan.tiles > 0,
                      "takes a loop that lies side by side in x and another in y") &&
           takes_whole_pieces(call, plan.tiles, why);
  }
  static void run(const Permutation& call, const Context& context) {
    const RealignedPlan plan = plan_realigned(call);
    const Permutation::Reach reach = call.reach(kX);
    with_element(call.element_bytes, [&]<class T>() {
      using Kernel = RealignedKernel<T>;
      const auto* x = static_cast<const T*>(call.x);
      const auto* valid = reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(x) / 16 * 16);
      Walk<kMaxRank> tiles;
      tiles.set(plan.loop, plan.loops);
      launch<Kernel>({.blocks = plan.tiles, .threads = Kernel::kThreads}, context.stream,
                     {x, static_cast<T*>(call.y), x + reach.lowest, x + reach.end, valid, plan.rows,
                      plan.columns, plan.x_pitch, plan.y_pitch, tiles, plan.column_loop});
    });
  }
};

}  // namespace

extern const Rung kRealigned;
constinit const Rung kRealigned = rung_of<Realigned, Transpose, Permute>({
    .name = "realigned",
    .from = "swizzled",
    .idea = "rows that begin anywhere in whole pieces of 16 bytes, shifted into place in registers",
});

}  // namespace ws::transpose
