// RowTile: the part of a row that some lanes hold in registers, and its scan by shuffles.
//
// Lanes take 16-byte vectors that lie side by side, kVectors times, so that every access is
// coalesced, and nobody needs the elements in another order: a lane folds each vector, the lanes
// scan what they have of vector 0, of vector 1, ..., independent of one another, and the totals of
// these are passed on. Then each lane walks its vectors once more, from what lies before them.
#pragma once

#include <algorithm>

#include "kernels/scan/monoids.hpp"
#include "warpsmith/row/cut.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/warp/reduce.hpp"
#include "warpsmith/warp/scan.hpp"

#if WS_DEVICE_CODE
namespace ws::scan {

// How a rung's rows lie: for the kernel's arguments.
template <class Monoid>
struct Rows {
  const typename Monoid::Element* x;
  typename Monoid::Result* y;
  int64_t x_pitch;
  int64_t y_pitch;
  int64_t count;  // of a row's elements
  int64_t rows;
  bool exclusive;
  bool reverse;
};
template <class Monoid>
Rows<Monoid> rows_of(const Scan& call) {
  return {static_cast<const typename Monoid::Element*>(call.input),
          static_cast<typename Monoid::Result*>(call.output),
          call.pitch(0),
          call.pitch(1),
          call.count,
          call.lines,
          call.exclusive,
          call.reverse};
}

// Whether rows can be read and written 16 bytes at a time, with the same elements in front.
inline bool rows_supported(const Scan& call, Why& why) {
  const auto x =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(call.input) / size_of(call.dtype));
  const auto y =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(call.output) / size_of(call.output_dtype));
  const auto width = static_cast<int64_t>(16 / size_of(call.output_dtype));
  return why.unless(call.has_rows(), "takes rows whose elements lie side by side") &&
         why.unless((x - y) % width == 0 && (call.pitch(0) - call.pitch(1)) % width == 0,
                    "moves 16 bytes at a time, but input and output are not aligned alike") &&
         why.unless(call.lines < int64_t{1} << 31, "takes fewer than 2^31 rows, not ", call.lines);
}

// Vectors that a row of `count` elements may touch, wherever it starts.
template <class Monoid>
int64_t vectors_of(const Scan& call) {
  constexpr int64_t kWidth = row::kWidest<typename Monoid::Element>;
  const auto address = reinterpret_cast<uintptr_t>(call.input);
  const bool aligned = address % 16 == 0 && (call.lines == 1 || call.pitch(0) % kWidth == 0);
  return divide_up(call.count + (aligned ? 0 : kWidth - 1), kWidth);
}

// One row, cut into vectors of 16 bytes of the input: the first may begin before the row, the last
// may end behind it.
template <class Monoid>
struct RowOf {
  using Element = typename Monoid::Element;
  static constexpr int kWidth = row::kWidest<Element>;

  const Element* x;
  typename Monoid::Result* y;
  int64_t count;
  int head;  // elements of the first vector that lie before the row
  bool exclusive;
  bool reverse;

  // Rows from rows.rows on have no elements.
  __device__ __forceinline__ RowOf(const Rows<Monoid>& rows, int64_t row)
      : x(rows.x + row * rows.x_pitch),
        y(rows.y + row * rows.y_pitch),
        count(row < rows.rows ? rows.count : 0),
        head(static_cast<int>(reinterpret_cast<uintptr_t>(x) / sizeof(Element)) & (kWidth - 1)),
        exclusive(rows.exclusive),
        reverse(rows.reverse) {}
  // A row whose vectors begin with it.
  __device__ __forceinline__ RowOf(const Element* x, typename Monoid::Result* y, int64_t count,
                                   bool exclusive, bool reverse)
      : x(x), y(y), count(count), head(0), exclusive(exclusive), reverse(reverse) {}

  // Of the `size` vectors that are scanned from `first` on, of `vectors`: those that lie in the row
  // as a whole, as they lie in memory.
  struct Span {
    int64_t begin;
    int64_t end;
  };
  __device__ __forceinline__ Span whole(int64_t first, int64_t size, int64_t vectors) const {
    const int64_t lowest = reverse ? vectors - first - size : first;
    const int64_t begin = std::max(lowest, int64_t{head > 0});
    const int64_t end = std::min(lowest + size, (head + count) / kWidth);
    return {begin, std::max(begin, end)};
  }
};

// kVectors vectors of each of kLanes lanes, a part of its warp; the order in which elements are
// scanned goes from lane to lane, then from vector to vector.
template <class Monoid, int kVectors, int kLanes = kWarpSize>
struct RowTile {
  using Element = typename Monoid::Element;
  using Result = typename Monoid::Result;
  using Accumulator = typename Monoid::Accumulator;
  using Lowered = decltype(std::declval<Monoid>().lower(Monoid::none()));
  using Row = RowOf<Monoid>;
  template <int kThreads>
  struct Storage {};  // of a block's tiles, in shared memory
  static constexpr int kWidth = Row::kWidth;
  static constexpr int kSpan = kVectors * kLanes;  // vectors of the tile

  Packed<Element> x[kVectors];
  Accumulator before[kVectors];  // of the lane's vector: what the tile holds in front of it

  RowTile() = default;
  template <int kThreads>
  __device__ __forceinline__ explicit RowTile(Storage<kThreads>& /*storage*/) {}

  // The tile of those that are scanned from vector `first` on; of a reversed row, that many vectors
  // from the last of its `vectors`.
  __device__ __forceinline__ void load(const Monoid& monoid, const Row& row, int64_t first,
                                       int64_t vectors) {
    load(monoid, row, first, vectors,
         [&](int64_t i) { return Packed<Element>::template load<Cache::kStreaming>(row.x + i); });
  }
  // The same where fetch(i) gives the vector that begins at element i and lies in the row.
  template <class Fetch>
  __device__ __forceinline__ void load(const Monoid& monoid, const Row& row, int64_t first,
                                       int64_t vectors, const Fetch& fetch) {
    place(row, first, vectors);
    if (inside_) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) x[v] = fetch(at(v));
    } else {
      // First all whole vectors, so that their loads are under way together; then the edges.
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        x[v] = filled_with(monoid.filler());
        if (is_whole(row, v)) x[v] = fetch(at(v));
      }
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        if (is_edge(row, v)) {
#pragma unroll
          for (int e = 0; e < kWidth; ++e) {
            const int64_t i = at(v) + e;
            if (i >= 0 && i < row.count) set_element(x[v], e, thread::load(row.x + i));
          }
        }
      }
    }
    if (row.reverse) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) x[v] = turned_round(x[v]);
    }
  }

  // Of all that the tile holds; leaves in `before` what lies in front of each vector.
  __device__ __forceinline__ Accumulator scan(const Monoid& monoid) {
    Accumulator scanned[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      Accumulator own = monoid.lift(element(x[v], 0));
#pragma unroll
      for (int e = 1; e < kWidth; ++e) own = Monoid::merge(own, monoid.lift(element(x[v], e)));
      scanned[v] = warp::inclusive_scan<kLanes>(own, Monoid::merge);
    }
    row::stay_packed(x);
    Accumulator total = Monoid::none();
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      before[v] = Monoid::merge(total, warp::shift_up<kLanes>(scanned[v], Monoid::none()));
      total = Monoid::merge(total, warp::shuffle<kLanes>(scanned[v], kLanes - 1));
    }
    return total;
  }

  // The same without what a scan needs.
  __device__ __forceinline__ Accumulator total(const Monoid& monoid) const {
    Accumulator own = Monoid::none();
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
      for (int e = 0; e < kWidth; ++e) own = Monoid::merge(own, monoid.lift(element(x[v], e)));
    }
    return warp::all_reduce<kLanes>(own, Monoid::merge);
  }

  // Writes the results, with `prefix` in front of the tile.
  __device__ __forceinline__ void store(const Monoid& monoid, const Row& row,
                                        const Accumulator& prefix) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const Vec<Result, kWidth> y = results_of(v, monoid, row, prefix);
      if (inside_ || is_whole(row, v)) {
        thread::store<Cache::kStreaming>(row.y + at(v), y);
      } else if (is_edge(row, v)) {
#pragma unroll
        for (int e = 0; e < kWidth; ++e) {
          const int64_t i = at(v) + e;
          if (i >= 0 && i < row.count) thread::store(row.y + i, y[e]);
        }
      }
    }
  }

 protected:
  // Of vector v, as they lie in memory.
  __device__ __forceinline__ Vec<Result, kWidth> results_of(int v, const Monoid& monoid,
                                                            const Row& row,
                                                            const Accumulator& prefix) const {
    Accumulator running = Monoid::merge(prefix, before[v]);
    Vec<Lowered, kWidth> lowered;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      const Accumulator with = Monoid::merge(running, monoid.lift(element(x[v], e)));
      lowered[e] = monoid.lower(row.exclusive ? running : with);
      running = with;
    }
    if (row.reverse) lowered = turned_round(lowered);
    return results<Result>(lowered);
  }
  __device__ __forceinline__ void place(const Row& row, int64_t first, int64_t vectors) {
    const int lane = lane_index() % kLanes;
    const int64_t lowest = row.reverse ? vectors - first - kSpan : first;
    const int64_t mine = row.reverse ? vectors - 1 - first - lane : first + lane;
    inside_ = lowest * kWidth >= row.head && (lowest + kSpan) * kWidth <= row.head + row.count;
    first_element_ = mine * kWidth - row.head;
    step_ = row.reverse ? -kLanes * kWidth : kLanes * kWidth;
  }

 private:
  // Where the tile lies: known again without another word a vector.
  int64_t first_element_;  // of this lane's first vector
  int step_;               // from vector to vector, in elements
  bool inside_;            // no vector of any lane leaves the row

  __device__ __forceinline__ int64_t at(int v) const { return first_element_ + v * step_; }
  __device__ __forceinline__ bool is_whole(const Row& row, int v) const {
    return at(v) >= 0 && at(v) + kWidth <= row.count;
  }
  __device__ __forceinline__ bool is_edge(const Row& row, int v) const {
    return !is_whole(row, v) && at(v) + kWidth > 0 && at(v) < row.count;
  }
};

}  // namespace ws::scan
#endif
