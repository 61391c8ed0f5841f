// Runs: the part of a row that some lanes hold, each a run of vectors that lie side by side.
//
// A lane's elements follow one another, so that what passes between lanes is one value a lane,
// however long the runs are. They wait in shared memory, and results take their places. There
// neighbouring lanes, a run apart, would all ask the same banks for their first vector; so lane l
// takes its vectors in the order of r ^ l, which no scan could follow, and which is another in each
// lane. What lies before each vector is found by a tree over them, where a lane takes the two
// branches of a node the other way round if the bit of l says so.
#pragma once

#include <bit>

#include "kernels/scan/monoids.hpp"
#include "kernels/scan/tile.hpp"
#include "kernels/scan/walk.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/warp/reduce.hpp"

#if WS_DEVICE_CODE
namespace ws::scan {

// Of eight elements in 16 bytes whose accumulators are two words each: a block has fewer warps, or
// an SM fewer blocks, so that nothing spills.
template <class Monoid>
inline constexpr bool kTakesRegisters =
    row::kWidest<typename Monoid::Element> * sizeof(typename Monoid::Accumulator) > 32;

// kVectors, a power of two, are a lane's. Merging has to commute.
template <class Monoid, int kVectors>
struct Runs {
  using Element = typename Monoid::Element;
  using Accumulator = typename Monoid::Accumulator;
  using Lowered = decltype(std::declval<Monoid>().lower(Monoid::none()));
  using Row = RowOf<Monoid>;
  static_assert(std::is_same_v<Element, typename Monoid::Result>,
                "results take the places of elements");
  static_assert(std::has_single_bit(static_cast<unsigned>(kVectors)));
  static constexpr int kWidth = Row::kWidth;
  static constexpr int kRun = kVectors * kWidth;  // elements

  // The run of lane `lane` of the `lanes` that take those scanned from vector `first` on, of
  // `vectors`. They lie in `parts` from `place` on, each where it would if the row filled them.
  __device__ __forceinline__ Runs(const Row& row, int64_t first, int64_t vectors, int lane,
                                  int lanes, const SharedSpan<Element>& parts, int place)
      : parts_(parts) {
    const int run = row.reverse ? lanes - 1 - lane : lane;
    begin_ = (lowest(row, first, vectors, lanes) + run * kVectors) * kWidth - row.head;
    place_ = place + run * kRun;
    // So that eight neighbours, whose accesses are one, ask for 128 bytes of all banks.
    constexpr int kAbreast = kVectors < 8 ? 8 / kVectors : 1;
    order_ = run / kAbreast & ((kVectors < 8 ? kVectors : 8) - 1);
  }
  // The first vector of all lanes, which may lie before the row.
  __device__ __forceinline__ static int64_t lowest(const Row& row, int64_t first, int64_t vectors,
                                                   int lanes) {
    return row.reverse ? vectors - first - int64_t{lanes} * kVectors : first;
  }

  // Puts what no copy of whole vectors has brought in its place: the row's edges, and what changes
  // nothing beyond them.
  __device__ __forceinline__ void add_edges(const Monoid& monoid, const Row& row) const {
    if (is_inside(row)) return;
#pragma unroll 1
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = begin_ + v * kWidth;
      if (at >= 0 && at + kWidth <= row.count) continue;
      Packed<Element> x = filled_with(monoid.filler());
      if (at + kWidth > 0 && at < row.count) {
#pragma unroll
        for (int e = 0; e < kWidth; ++e) {
          if (at + e >= 0 && at + e < row.count) set_element(x, e, thread::load(row.x + at + e));
        }
      }
      parts_.template store<kWidth>(place_ + v * kWidth, std::bit_cast<Vec<Element, kWidth>>(x));
    }
  }
  __device__ __forceinline__ void load() {
#pragma unroll
    for (int r = 0; r < kVectors; ++r) {
      x_[r] = std::bit_cast<Packed<Element>>(parts_.template load<kWidth>(place(r)));
    }
  }

  // Of the run; leaves what store() needs.
  __device__ __forceinline__ Accumulator fold(const Monoid& monoid) {
#pragma unroll
    for (int r = 0; r < kVectors; ++r) {
      stay_packed(x_[r]);
      node_[kVectors + r] = folded(monoid, x_[r]);
    }
#pragma unroll
    for (int i = kVectors - 1; i > 0; --i) {
      node_[i] = Monoid::merge(node_[2 * i], node_[2 * i + 1]);
    }
    return node_[1];
  }

  // Results to where the elements were; `before` lies before the run.
  __device__ __forceinline__ void store(const Monoid& monoid, const Row& row,
                                        const Accumulator& before) {
    Accumulator start[2 * kVectors];
    start[1] = before;
    const int turned = order_ ^ (row.reverse ? kVectors - 1 : 0);
#pragma unroll
    for (int nodes = 1; nodes < kVectors; nodes *= 2) {
      const bool swap = (turned & (kVectors / 2 / nodes)) != 0;
#pragma unroll
      for (int i = nodes; i < 2 * nodes; ++i) {
        Accumulator first = node_[2 * i];
        if (swap) first = node_[2 * i + 1];
        const Accumulator second = Monoid::merge(start[i], first);
        start[2 * i] = start[2 * i + 1] = start[i];
        if (swap) {
          start[2 * i] = second;
        } else {
          start[2 * i + 1] = second;
        }
      }
    }
    if constexpr (kSumsExponentials<Monoid>) {
      const Element x = parts_[place_ + (row.reverse ? kRun - 1 : 0)];
      const float first = to_float(x);
      if (ShiftedSum::takes(before, first, node_[1].max)) {
        const ShiftedSum shift(before, first);
        return in_order(row, [&]<bool kExclusive, bool kReverse>() {
          store_shifted<kExclusive, kReverse>(start, shift);
        });
      }
    }
    in_order(row, [&]<bool kExclusive, bool kReverse>() {
      store_from<kExclusive, kReverse>(monoid, start);
    });
  }
  // What no copy of whole vectors takes.
  __device__ __forceinline__ void write_edges(const Row& row) const {
    if (is_inside(row)) return;
#pragma unroll 1
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = begin_ + v * kWidth;
      if ((at >= 0 && at + kWidth <= row.count) || at + kWidth <= 0 || at >= row.count) continue;
      const Vec<Element, kWidth> y = parts_.template load<kWidth>(place_ + v * kWidth);
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        if (at + e >= 0 && at + e < row.count) thread::store(row.y + at + e, y[e]);
      }
    }
  }

 private:
  // f<exclusive, reverse>() of the row.
  template <class F>
  __device__ __forceinline__ static void in_order(const Row& row, const F& f) {
    if (row.reverse) {
      row.exclusive ? f.template operator()<true, true>() : f.template operator()<false, true>();
    } else {
      row.exclusive ? f.template operator()<true, false>() : f.template operator()<false, false>();
    }
  }
  template <bool kExclusive, bool kReverse>
  __device__ __forceinline__ void store_shifted(const Accumulator (&start)[2 * kVectors],
                                                const ShiftedSum& shift) {
#pragma unroll
    for (int r = 0; r < kVectors; ++r) {
      stay_packed(x_[r]);
      ShiftedSum sum(start[kVectors + r], shift);
      Vec<Lowered, kWidth> lowered;
#pragma unroll
      for (int step = 0; step < kWidth; ++step) {
        const int e = kReverse ? kWidth - 1 - step : step;
        if (kExclusive) lowered[e] = sum.logarithm();
        sum.add(x_[r][e]);
        if (!kExclusive) lowered[e] = sum.logarithm();
      }
      parts_.template store<kWidth>(place(r), results<Element>(lowered));
    }
  }
  template <bool kExclusive, bool kReverse>
  __device__ __forceinline__ void store_from(const Monoid& monoid,
                                             const Accumulator (&start)[2 * kVectors]) {
#pragma unroll
    for (int r = 0; r < kVectors; ++r) {
      stay_packed(x_[r]);
      Accumulator running = start[kVectors + r];
      Vec<Lowered, kWidth> lowered;
#pragma unroll
      for (int step = 0; step < kWidth; ++step) {
        const int e = kReverse ? kWidth - 1 - step : step;
        const Accumulator with = Monoid::merge(running, monoid.lift(element(x_[r], e)));
        lowered[e] = monoid.lower(kExclusive ? running : with);
        running = with;
      }
      parts_.template store<kWidth>(place(r), results<Element>(lowered));
    }
  }
  // Converted here, and not with all others ahead of the branches, in twice the registers.
  __device__ __forceinline__ static void stay_packed(Packed<Element>& x) {
    Packed<Element> one[1] = {x};
    row::stay_packed(one);
    x = one[0];
  }
  __device__ __forceinline__ int place(int r) const { return place_ + (r ^ order_) * kWidth; }
  __device__ __forceinline__ bool is_inside(const Row& row) const {
    return begin_ >= 0 && begin_ + kRun <= row.count;
  }

  SharedSpan<Element> parts_;
  Packed<Element> x_[kVectors];     // x_[r] is vector r ^ order_ of the run
  Accumulator node_[2 * kVectors];  // a tree: its root is 1, that of x_[r] kVectors + r
  int64_t begin_;                   // the run's first element in the row
  int place_;                       // ... and in `parts`
  int order_;
};

}  // namespace ws::scan
#endif
