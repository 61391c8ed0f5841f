// Binners: from an element to its bin. A kernel asks `bin_of(x)`; what is not below `bins` is
// counted nowhere, and where that is no error it is `bins` itself.
#pragma once

#include <cmath>

#include "kernels/histogram/operations.hpp"
#include "warpsmith/device_error.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/ptx/atomic_shared.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/memory.hpp"

#if WS_DEVICE_CODE
namespace ws::histogram {

inline constexpr uint32_t kNowhere = 0xFFFFFFFF;

// The value itself. One that is no bin is an error.
template <class T>
struct ByValue {
  using Element = T;
  static constexpr bool kReports = true;
  static constexpr bool kHasTable = false;
  IndexCheck check;

  template <class Call>
  ByValue(const Call& call, const char* rung) : check(rung, "x", call.bins) {}
  ByValue() = default;

  __device__ __forceinline__ uint32_t operator()(T x) const {
    if constexpr (sizeof(T) == 8) {
      return static_cast<uint64_t>(x) < kNowhere ? static_cast<uint32_t>(x) : kNowhere;
    } else {
      return static_cast<uint32_t>(x);  // of a negative one more than there can be bins
    }
  }
};

// t / width in two multiply-adds for f32 that are far from its ends: the remainder of an estimate
// is exact, and what it adds rounds as a division would (Markstein, "Computation of elementary
// functions on the IBM RISC System/6000 processor", 1990).
struct Quotient {
  float width = 1;
  float reciprocal = 1;

  Quotient() = default;
  __host__ __device__ explicit Quotient(float width) : width(width), reciprocal(1 / width) {}
  static bool is_exact_for(float width) { return width >= 0x1p-60F && width <= 0x1p60F; }

  __device__ __forceinline__ float operator()(float t) const {
    const float estimate = t * reciprocal;
    const float rest = thread::fma(-estimate, width, t);
    return thread::fma(rest, reciprocal, estimate);
  }
};

// One of `bins` equal parts of [min, max], by torch's arithmetic, rounding by rounding.
template <class T, bool kDivides = false>
struct ByWidth {
  using Element = T;
  static constexpr bool kReports = false;
  static constexpr bool kHasTable = false;
  float min = 0;
  float max = 1;
  float parts = 1;
  float last = 0;
  uint32_t bins = 0;
  Quotient quotient;

  ByWidth() = default;
  ByWidth(const Histc::Call& call, const char* /*rung*/)
      : min(call.min),
        max(call.max),
        parts(static_cast<float>(call.bins)),
        last(static_cast<float>(call.bins - 1)),
        bins(static_cast<uint32_t>(call.bins)),
        quotient(call.max - call.min) {}

  __device__ __forceinline__ uint32_t operator()(T x) const {
    const float value = to_float(x);
    const float t = (value - min) * parts;
    const float place = kDivides ? t / quotient.width : quotient(t);
    const bool is_inside = value >= min && value <= max;  // NaN is not
    // Brought inside before it is an integer: of a number outside it may be anything.
    const auto bin = static_cast<uint32_t>(thread::min(thread::max(place, 0.0F), last));
    return is_inside ? bin : bins;
  }
};

// Between which edges, by a binary search in global memory.
template <class T>
struct ByEdges {
  using Element = T;
  static constexpr bool kReports = false;
  static constexpr bool kHasTable = true;
  const float* edges = nullptr;
  int64_t stride = 1;
  uint32_t bins = 0;
  uint32_t first_step = 0;  // the largest power of two below bins
  OrderCheck check;

  ByEdges() = default;
  ByEdges(const CountBetween::Call& call, const char* rung)
      : edges(call.edges),
        stride(call.edge_stride),
        bins(static_cast<uint32_t>(call.bins)),
        check(rung, "edges") {
    for (uint32_t step = 1; step < bins; step *= 2) first_step = step;
  }

  __device__ __forceinline__ float edge(int64_t i) const {
    return thread::load(edges + i * stride);
  }
  // Whether no edge falls, said to each thread for those that it looks at; the first block reports.
  __device__ __forceinline__ bool are_right(int threads) const {
    bool right = true;
    for (int64_t i = thread_index() + 1; i <= bins; i += threads) {
      const float before = edge(i - 1);
      const float here = edge(i);
      right = right && before <= here;
      if (block_index() == 0) check(before, here, i);
    }
    return right;
  }
  __device__ __forceinline__ uint32_t operator()(T x) const {
    const float value = to_float(x);
    uint32_t low = 0;
    for (uint32_t step = first_step; step > 0; step /= 2) {
      const uint32_t middle = low + step;
      if (middle < bins && edge(middle) <= value) low = middle;
    }
    return value >= edge(0) && value <= edge(bins) ? low : bins;
  }
};

// The same with the edges in shared memory: those where bins begin, then NaN, which is below
// nothing, up to a power of two; then the last edge. So the search asks nothing but the edges, and
// those of several elements go side by side.
template <class T>
struct ByTable {
  SharedSpan<float> edges;
  uint32_t bins;
  uint32_t first_step;

  static __host__ __device__ constexpr int64_t words_of(int64_t first_step) {
    return 2 * std::max<int64_t>(first_step, 1) + 1;
  }

  __device__ __forceinline__ ByTable(const SharedSpan<float>& table, const ByEdges<T>& from,
                                     int threads)
      : edges(table), bins(from.bins), first_step(from.first_step) {
    const int64_t last = table.size() - 1;
    for (int64_t i = thread_index(); i <= last; i += threads) {
      edges[i] = i < bins ? from.edge(i) : i < last ? NAN : from.edge(bins);
    }
  }

  template <int N>
  __device__ __forceinline__ Vec<uint32_t, N> operator()(const Vec<T, N>& x) const {
    Vec<uint32_t, N> low{};
#pragma unroll 1
    for (uint32_t step = first_step; step > 0; step /= 2) {
#pragma unroll
      for (int e = 0; e < N; ++e) {
        const float middle = edges[low[e] + step];
        low[e] += middle <= to_float(x[e]) ? step : 0;
      }
    }
    const float first = edges[0];
    const float last = edges[edges.size() - 1];
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const float value = to_float(x[e]);
      low[e] = value >= first && value <= last ? low[e] : bins;
    }
    return low;
  }
};

// Whether no edge falls, said to all threads of a block alike; true where a binner has none.
template <class Binner>
__device__ __forceinline__ bool has_right_edges(const Binner& binner,
                                                SharedArray<uint32_t, 1>& wrong, int threads) {
  if constexpr (Binner::kHasTable) {
    if (thread_index() == 0) wrong[0] = 0;
    ptx::barrier_sync();
    if (!binner.are_right(threads)) ptx::red_shared_increment(wrong.pointer());
    ptx::barrier_sync();
    return wrong[0] == 0;
  }
  return true;
}

// Words of a ByTable of the call's edges.
inline int64_t table_words(const Counted& /*call*/) { return 0; }
inline int64_t table_words(const CountBetween::Call& call) {
  return ByTable<float>::words_of(ByEdges<float>(call, "").first_step);
}

// f(binner) with the binner of a call. kAnything: bytes, and histc of any range.
template <bool kAnything = false, class F>
void with_binner(const CountBins::Call& call, const char* rung, const F& f) {
  constexpr DTypes kTaken = kAnything ? kValues : kWords;
  with_type<kTaken>(call.dtype, [&]<class T>() { f(ByValue<T>(call, rung)); });
}
template <bool kAnything = false, class F>
void with_binner(const SumBins::Call& call, const char* rung, const F& f) {
  with_type<kValues>(call.dtype, [&]<class T>() { f(ByValue<T>(call, rung)); });
}
template <bool kAnything = false, class F>
void with_binner(const Histc::Call& call, const char* rung, const F& f) {
  with_type<kFloats>(call.dtype, [&]<class T>() { f(ByWidth<T, kAnything>(call, rung)); });
}
template <bool kAnything = false, class F>
void with_binner(const CountBetween::Call& call, const char* rung, const F& f) {
  with_type<kFloats>(call.dtype, [&]<class T>() { f(ByEdges<T>(call, rung)); });
}

}  // namespace ws::histogram
#endif
