// A thread's way along a line's elements: what they add up to, and results one behind the other. By
// merges, but of logarithms of sums of exponentials.
//
// A merge of two maxima and sums takes a dozen instructions, for either maximum may be the larger.
// As long as the shift of a sum stays, an element is a difference, an exponential and an addition,
// and a result a logarithm and a multiply-add. What elements add up to is shifted by their maximum,
// which is found first, two elements of 16 bits an instruction. Results are shifted by the maximum
// of all that lies before, or by the first element where nothing does, as long as no element is so
// far above it that exponentials could overflow: what is far below it is lost in the sum, as it
// should be.
#pragma once

#include <limits>

#include "kernels/scan/monoids.hpp"

#if WS_DEVICE_CODE
namespace ws::scan {

template <class Monoid>
inline constexpr bool kSumsExponentials = false;
template <class T>
inline constexpr bool kSumsExponentials<LogSumOf<T>> = true;

// The sum of exp(x - shift()) of some x.
class ShiftedSum {
 public:
  // Of none yet; of those to come `largest` is the largest, or may be a NaN. Infinities are shifted
  // by the largest number: exponentials become 0 and infinity.
  __device__ __forceinline__ explicit ShiftedSum(float largest)
      : shift_(::fminf(::fmaxf(largest, -kMost), kMost)), sum_(0) {}
  // With what lies before `first`, the first of those to come.
  __device__ __forceinline__ ShiftedSum(const thread::MaxSum& before, float first)
      : shift_(shift_of(before, first)), sum_(is_none(before) ? 0.0F : before.sum) {}
  // With what lies before other elements than those that `shift` is of, by its shift.
  __device__ __forceinline__ ShiftedSum(const thread::MaxSum& before, const ShiftedSum& shift)
      : shift_(shift.shift_),
        sum_(is_none(before) ? 0.0F : before.sum * thread::fast_exp(before.max - shift_)) {}

  // Whether that may be the shift for elements of up to `largest`.
  __device__ __forceinline__ static bool takes(const thread::MaxSum& before, float first,
                                               float largest) {
    constexpr float kAbove = 60;  // e^60 of 2^40 such elements is a number
    const float shift = shift_of(before, first);
    return ::fabsf(shift) <= kMost && largest - shift < kAbove;
  }
  __device__ __forceinline__ float term(float x) const { return thread::fast_exp(x - shift_); }
  __device__ __forceinline__ void add(float x) { sum_ += term(x); }
  __device__ __forceinline__ float sum() const { return sum_; }
  __device__ __forceinline__ float shift() const { return shift_; }
  __device__ __forceinline__ float logarithm() const { return logarithm_of(sum_); }
  // Of another sum with this shift.
  __device__ __forceinline__ float logarithm_of(float sum) const {
    return thread::fma(thread::fast_log2(sum), thread::kLn2, shift_);
  }

 private:
  static constexpr float kMost = std::numeric_limits<float>::max();
  // A NaN beside logarithms of 0 has their maximum: what lies before is a NaN then, not nothing.
  __device__ __forceinline__ static bool is_none(const thread::MaxSum& before) {
    return before.max == -thread::kInfinity && before.sum == before.sum;
  }
  __device__ __forceinline__ static float shift_of(const thread::MaxSum& before, float first) {
    return is_none(before) ? first : before.max;
  }

  float shift_;
  float sum_;
};

// ---- Along a vector of a line -------------------------------------------------------------------

// Of the elements of a vector.
template <class Monoid>
__device__ __forceinline__ typename Monoid::Accumulator folded(
    const Monoid& monoid, const Packed<typename Monoid::Element>& x) {
  constexpr int kWidth = row::kWidest<typename Monoid::Element>;
  if constexpr (kSumsExponentials<Monoid>) {
    const Packed<typename Monoid::Element> one[] = {x};
    const float largest = row::largest(one);
    ShiftedSum sum(largest);
#pragma unroll
    for (int e = 0; e < kWidth; ++e) sum.add(x[e]);
    return {largest, sum.sum()};
  } else {
    auto own = monoid.lift(element(x, 0));
#pragma unroll
    for (int e = 1; e < kWidth; ++e) own = Monoid::merge(own, monoid.lift(element(x, e)));
    return own;
  }
}

// ---- Down neighbouring columns, 16 bytes of them a row ------------------------------------------

template <class Monoid>
class ColumnWalk {
  using Element = typename Monoid::Element;
  static constexpr bool kShifts = kSumsExponentials<Monoid>;
  struct Nothing {};

 public:
  using Accumulator = typename Monoid::Accumulator;
  using Lowered = decltype(std::declval<Monoid>().lower(Monoid::none()));
  static constexpr int kWidth = row::kWidest<Element>;
  using OfColumns = Accumulator[kWidth];

  // Of `rows` rows, row(r) the r-th, into `totals`.
  template <class Row>
  __device__ __forceinline__ void fold(const Monoid& monoid, int rows, const Row& row,
                                       OfColumns& totals) {
    if constexpr (kShifts) {
      largest_ = row(0);
#pragma unroll 4
      for (int r = 1; r < rows; ++r) {
        const Packed<Element> both[] = {largest_, row(r)};
        largest_ = row::largest_of_each(both);
      }
      auto sums = thread::tile_of<kWidth>([&](int e) { return ShiftedSum(largest_[e]); });
#pragma unroll 2
      for (int r = 0; r < rows; ++r) {
        const Packed<Element> x = row(r);
#pragma unroll
        for (int e = 0; e < kWidth; ++e) sums[e].add(x[e]);
      }
#pragma unroll
      for (int e = 0; e < kWidth; ++e) totals[e] = {largest_[e], sums[e].sum()};
    } else {
#pragma unroll
      for (Accumulator& total : totals) total = Monoid::none();
#pragma unroll 4
      for (int r = 0; r < rows; ++r) {
        const Packed<Element> x = row(r);
#pragma unroll
        for (int e = 0; e < kWidth; ++e) {
          totals[e] = Monoid::merge(totals[e], monoid.lift(element(x, e)));
        }
      }
    }
  }

  // After fold(), of the same rows: emit(r, results of row r), where `before` lies before them.
  template <class Row, class Emit>
  __device__ __forceinline__ void scan(const Monoid& monoid, int rows, const Row& row,
                                       bool exclusive, const OfColumns& before,
                                       const Emit& emit) const {
    if constexpr (kShifts) {
      const Packed<Element> first = row(0);
      bool all = true;
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        all = all && ShiftedSum::takes(before[e], first[e], largest_[e]);
      }
      if (all) {
        return exclusive ? scan_shifted<true>(rows, row, before, emit)
                         : scan_shifted<false>(rows, row, before, emit);
      }
    }
    Accumulator running[kWidth];
#pragma unroll
    for (int e = 0; e < kWidth; ++e) running[e] = before[e];
#pragma unroll(kShifts ? 1 : 2)
    for (int r = 0; r < rows; ++r) {
      const Packed<Element> x = row(r);
      Vec<Lowered, kWidth> out;
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        const Accumulator with = Monoid::merge(running[e], monoid.lift(element(x, e)));
        out[e] = monoid.lower(exclusive ? running[e] : with);
        running[e] = with;
      }
      emit(r, out);
    }
  }

 private:
  template <bool kExclusive, class Row, class Emit>
  __device__ __forceinline__ static void scan_shifted(int rows, const Row& row,
                                                      const OfColumns& before, const Emit& emit) {
    const Packed<Element> first = row(0);
    auto sums = thread::tile_of<kWidth>([&](int e) { return ShiftedSum(before[e], first[e]); });
#pragma unroll 2
    for (int r = 0; r < rows; ++r) {
      const Packed<Element> x = row(r);
      Vec<Lowered, kWidth> out;
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        if (kExclusive) out[e] = sums[e].logarithm();
        sums[e].add(x[e]);
        if (!kExclusive) out[e] = sums[e].logarithm();
      }
      emit(r, out);
    }
  }

  [[no_unique_address]] std::conditional_t<kShifts, Packed<Element>, Nothing> largest_;
};

}  // namespace ws::scan
#endif
