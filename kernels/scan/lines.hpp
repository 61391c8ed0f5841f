// LineTile: RowTile of lines that cannot be read, or not written, 16 bytes at a time: their sides
// are aligned differently, or elements lie apart.
//
// Lanes take single elements side by side, so that what a warp asks for is coalesced where it can
// be, and turn them in shared memory into RowTile's vectors; results take the same way back. A side
// that does lie in whole vectors does without. All else is RowTile's, the bits of results too.
#pragma once

#include <algorithm>

#include "kernels/reduce/walk.hpp"
#include "kernels/scan/tile.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"

#if WS_DEVICE_CODE
namespace ws::scan {

// How a rung's lines lie: for the kernel's arguments.
template <class Monoid>
struct Lines {
  const typename Monoid::Element* x;
  typename Monoid::Result* y;
  reduce::Walk walk;
  int64_t x_stride;
  int64_t y_stride;
  int64_t count;  // of a line's elements
  int64_t rows;
  bool x_vectors;  // each line of x lies in vectors that begin with it
  bool y_vectors;
  bool exclusive;
  bool reverse;
};

template <class Monoid>
struct LineOf : RowOf<Monoid> {
  int64_t x_stride;
  int64_t y_stride;
  bool x_vectors;
  bool y_vectors;

  // Lines from lines.rows on have no elements.
  __device__ __forceinline__ LineOf(const Lines<Monoid>& lines, int64_t line)
      : LineOf(lines, lines.walk(line), line < lines.rows ? lines.count : 0) {}

 private:
  __device__ __forceinline__ LineOf(const Lines<Monoid>& lines, const reduce::Walk::Place& place,
                                    int64_t count)
      : RowOf<Monoid>(lines.x + place.at[0], lines.y + place.at[1], count, lines.exclusive,
                      lines.reverse),
        x_stride(lines.x_stride),
        y_stride(lines.y_stride),
        x_vectors(lines.x_vectors),
        y_vectors(lines.y_vectors) {}
};

template <class Monoid, int kVectors, int kLanes = kWarpSize>
struct LineTile : RowTile<Monoid, kVectors, kLanes> {
  using Base = RowTile<Monoid, kVectors, kLanes>;
  using Element = typename Monoid::Element;
  using Result = typename Monoid::Result;
  using Row = LineOf<Monoid>;
  static constexpr int kWidth = Base::kWidth;
  static constexpr int kEach = kVectors * kWidth;  // elements of a lane
  static constexpr int kElements = Base::kSpan * kWidth;
  // The groups of a warp ask other banks.
  static constexpr int kApart = kElements + (kLanes < kWarpSize ? kLanes : 0);
  template <int kThreads>
  using Storage = SharedArray<Result, kThreads / kLanes * kApart>;

  template <int kOfBlock>
  __device__ __forceinline__ explicit LineTile(SharedArray<Result, kOfBlock>& storage)
      : turn_(storage.pointer(thread_index() / kLanes * kApart), kElements) {}

  __device__ __forceinline__ void load(const Monoid& monoid, const Row& row, int64_t first,
                                       int64_t vectors) {
    lowest_ = (row.reverse ? vectors - first - Base::kSpan : first) * kWidth;
    if (row.x_vectors) return Base::load(monoid, row, first, vectors);
    this->place(row, first, vectors);
    const int lane = lane_index() % kLanes;
    const Element* x = row.x + (lowest_ + lane) * row.x_stride;
    const Span mine(row, lowest_);
    ptx::syncwarp();  // nobody reads what was turned before
    // As many on their way as registers hold beside the rest.
    constexpr int kBatch = std::min(kEach, 16);
#pragma unroll
    for (int from = 0; from < kEach; from += kBatch) {
      Element own[kBatch];
#pragma unroll
      for (int j = 0; j < kBatch; ++j, x += kLanes * row.x_stride) {
        own[j] = monoid.filler();
        if (mine.has((from + j) * kLanes + lane)) own[j] = thread::load(x);
      }
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        turn_[(from + j) * kLanes + lane] = static_cast<Result>(own[j]);
      }
    }
    ptx::syncwarp();
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const Vec<Result, kWidth> turned = turn_.template load<kWidth>(place_of(row, v));
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        set_element(this->x[v], e, static_cast<Element>(turned[e]));
      }
      if (row.reverse) this->x[v] = turned_round(this->x[v]);
    }
  }

  __device__ __forceinline__ void store(const Monoid& monoid, const Row& row,
                                        const typename Base::Accumulator& prefix) const {
    if (row.y_vectors) return Base::store(monoid, row, prefix);
    ptx::syncwarp();
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      turn_.template store<kWidth>(place_of(row, v), this->results_of(v, monoid, row, prefix));
    }
    ptx::syncwarp();
    const int lane = lane_index() % kLanes;
    Result* y = row.y + (lowest_ + lane) * row.y_stride;
    const Span mine(row, lowest_);
#pragma unroll
    for (int j = 0; j < kEach; ++j, y += kLanes * row.y_stride) {
      if (!mine.has(j * kLanes + lane)) continue;
      const Result result = turn_[j * kLanes + lane];
      thread::store(y, result);
    }
  }

 private:
  // The tile's elements that are the line's.
  struct Span {
    int begin;
    int end;

    __device__ __forceinline__ Span(const Row& row, int64_t lowest)
        : begin(within(-lowest)), end(within(row.count - lowest)) {}
    __device__ __forceinline__ bool has(int i) const { return i >= begin && i < end; }

   private:
    __device__ __forceinline__ static int within(int64_t i) {
      return static_cast<int>(i < 0 ? 0 : i < kElements ? i : kElements);
    }
  };
  __device__ __forceinline__ static int place_of(const Row& row, int v) {
    const int vector = v * kLanes + lane_index() % kLanes;
    return (row.reverse ? Base::kSpan - 1 - vector : vector) * kWidth;
  }

  SharedSpan<Result> turn_;
  int64_t lowest_;  // the tile's first element in the line
};

// ---- From a call to its tiles ------------------------------------------------------------------

// A rung that is written for either has a kernel of each: rows that lie alike on both sides.
struct OfRows {
  template <class Monoid>
  using Rows = scan::Rows<Monoid>;
  template <class Monoid, int kVectors, int kLanes = kWarpSize>
  using Tile = RowTile<Monoid, kVectors, kLanes>;

  template <class Monoid>
  static Rows<Monoid> rows_of(const Scan& call) {
    return scan::rows_of<Monoid>(call);
  }
  template <class Monoid>
  static int64_t vectors_of(const Scan& call) {
    return scan::vectors_of<Monoid>(call);
  }
};
// ... and lines that lie anyhow.
struct OfLines {
  template <class Monoid>
  using Rows = Lines<Monoid>;
  template <class Monoid, int kVectors, int kLanes = kWarpSize>
  using Tile = LineTile<Monoid, kVectors, kLanes>;

  template <class Monoid>
  static Rows<Monoid> rows_of(const Scan& call) {
    const auto in_vectors = [&](const void* data, size_t k, int64_t width) {
      bool whole = reinterpret_cast<uintptr_t>(data) % 16 == 0 && call.strides[k] == 1;
      for (size_t i = 0; i < call.loops; ++i) whole &= call.line[i].strides[k] % width == 0;
      return whole;
    };
    return {static_cast<const typename Monoid::Element*>(call.input),
            static_cast<typename Monoid::Result*>(call.output),
            reduce::Walk(call.line, call.loops, call.lines),
            call.strides[0],
            call.strides[1],
            call.count,
            call.lines,
            in_vectors(call.input, 0, row::kWidest<typename Monoid::Element>),
            in_vectors(call.output, 1, row::kWidest<typename Monoid::Result>),
            call.exclusive,
            call.reverse};
  }
  template <class Monoid>
  static int64_t vectors_of(const Scan& call) {
    return divide_up(call.count, int64_t{row::kWidest<typename Monoid::Element>});
  }
};

// f(OfRows{}) or f(OfLines{}), as the call's lines lie.
template <class F>
auto with_tiles(const Scan& call, const F& f) {
  Why nobody_asks;
  return rows_supported(call, nobody_asks) ? f(OfRows{}) : f(OfLines{});
}
inline bool lines_supported(const Scan& call, Why& why) {
  return why.unless(call.count > 0, "takes lines of an element and more") &&
         why.unless(call.lines < int64_t{1} << 31, "takes fewer than 2^31 lines, not ", call.lines);
}

}  // namespace ws::scan
#endif
