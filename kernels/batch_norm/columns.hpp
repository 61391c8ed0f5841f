// Channels that lie side by side (NHWC, and [N, C]): a tensor is a matrix of rows, each with an
// element of every channel, and a thread takes 16 bytes of columns.
#pragma once

#include "kernels/batch_norm/parts.hpp"
#include "warpsmith/ptx/barrier.hpp"
#include "warpsmith/row/cut.hpp"
#include "warpsmith/row/packed.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/tile.hpp"

namespace ws::batch_norm {

inline bool columns_supported(const Layout& layout, DType dtype, Why& why) {
  const auto width = static_cast<int64_t>(16 / size_of(dtype));
  if (!why.unless(layout.axes <= 1 && layout.width == 1 && layout.sample[0] == 0 &&
                      layout.sets == layout.per,
                  "takes channels that lie side by side (NHWC)")) {
    return false;
  }
  for (size_t k = 0; static_cast<int>(k) < layout.operands; ++k) {
    if (!why.unless((layout.set[k] == 1 || layout.per == 1) && layout.sets % width == 0 &&
                        layout.strides[k][0] % width == 0 &&
                        reinterpret_cast<uintptr_t>(layout.data[k]) % 16 == 0,
                    "takes rows of whole vectors of ", width,
                    " channels that start at a multiple of 16 bytes")) {
      return false;
    }
  }
  return true;
}

// How threads share columns and rows.
struct ColumnsPlan {
  static constexpr int kAcross = 32;  // threads side by side: a warp reads 512 bytes of a row

  int across = 1;
  int64_t vectors = 0;  // of a row
  int64_t stripes = 1;
  Plan rows;  // parts of `share` rows

  static ColumnsPlan of(const Layout& layout, DType dtype, int threads, int loads, int blocks) {
    ColumnsPlan plan;
    plan.vectors = layout.sets / static_cast<int64_t>(16 / size_of(dtype));
    while (plan.across < kAcross && plan.across < plan.vectors) plan.across *= 2;
    plan.stripes = divide_up(plan.vectors, int64_t{plan.across});
    plan.rows =
        Plan::of(plan.stripes, layout.count, int64_t{threads / plan.across} * loads, blocks);
    return plan;
  }
  int64_t blocks() const { return stripes * rows.parts; }
};

// A tensor as rows of an element of every channel.
template <class T>
struct Rows {
  T* data;
  int64_t pitch;

  static Rows of(const Layout& layout, int k) {
    return {layout.as<T>(k), layout.strides[static_cast<size_t>(k)][0]};
  }
};

#if WS_DEVICE_CODE

// A block's stripe and rows, a thread's columns.
template <class T, int kThreads>
struct Place {
  static constexpr int kWidth = row::kWidest<T>;

  int64_t part;
  int64_t vector;
  int64_t first;  // row of this thread, and how far its next is
  int64_t last;
  int step;
  bool mine;

  // Stripes first: blocks that run together read whole rows.
  __device__ __forceinline__ Place(const ColumnsPlan& plan, int64_t count, int64_t item) {
    const int64_t stripe = item % plan.stripes;
    part = item / plan.stripes;
    vector = stripe * plan.across + (thread_index() & (plan.across - 1));
    step = kThreads / plan.across;
    first = part * plan.rows.share + thread_index() / plan.across;
    const int64_t end = (part + 1) * plan.rows.share;
    last = end < count ? end : count;
    mine = vector < plan.vectors;
  }
  __device__ __forceinline__ bool is_first_row(int across) const {
    return thread_index() < across && mine;
  }
  __device__ __forceinline__ int64_t channel(int i) const { return vector * kWidth + i; }
  // f(i), for each i-th column of which this thread is to tell what became: columns are shared out
  // among the rows of threads. A loop, so that there is one copy of f.
  template <class F>
  __device__ __forceinline__ void tell(const F& f) const {
    if (!mine || part != 0) return;
#pragma unroll 1
    for (int i = thread_index() * step / kThreads; i < kWidth; i += step) f(i);
  }
  // Of this thread.
  __device__ __forceinline__ int rows() const {
    return mine && first < last ? static_cast<int>((last - first + step - 1) / step) : 0;
  }
};

// The totals of threads that stand over the same columns, merged in a fixed order; the first
// thread has them.
template <class Total, int kWidth, int kThreads>
struct MergeRows {
  struct Storage {
    SharedArray<Total, kThreads / 2 * kWidth> totals;
  };
  template <class Merge>
  __device__ __forceinline__ static void apply(Storage& shared, thread::Tile<Total, kWidth>& totals,
                                               int across, const Merge& merge) {
    const int t = thread_index();
    for (int half = kThreads / 2; half >= across; half /= 2) {
      if (t >= half && t < 2 * half) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) shared.totals[i * kThreads / 2 + t - half] = totals[i];
      }
      ptx::barrier_sync();
      if (t < half) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          const Total upper = shared.totals[i * kThreads / 2 + t];
          totals[i] = merge(totals[i], upper);
        }
      }
      ptx::barrier_sync();
    }
  }
};

// Moments of a thread's columns, of which it takes a vector a row.
template <class T>
struct RunningColumns {
  static constexpr int kWidth = row::kWidest<T>;
  float pivot[kWidth];
  float sum[kWidth];
  float squares[kWidth];
  float count = 0;

  __device__ __forceinline__ RunningColumns() {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) pivot[i] = sum[i] = squares[i] = 0;
  }
  __device__ __forceinline__ void add(const row::Packed<T, kWidth>& x) {
    const bool first = count == 0;
    count += 1;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      if (first) pivot[i] = x[i];
      const float away = x[i] - pivot[i];
      sum[i] += away;
      squares[i] = thread::fma(away, away, squares[i]);
    }
  }
  __device__ __forceinline__ thread::Tile<thread::Moments, kWidth> moments() const {
    thread::Tile<thread::Moments, kWidth> tile;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      tile[i] = thread::from_pivot(count, pivot[i], sum[i], squares[i]);
    }
    return tile;
  }
};

// What a thread's columns become.
template <class T>
struct AffineColumns {
  static constexpr int kWidth = row::kWidest<T>;
  float mean[kWidth];
  float scale[kWidth];
  float shift[kWidth];

  AffineColumns() = default;
  // The first column is channel `first`. Not normalised yet.
  __device__ __forceinline__ AffineColumns(const Values& weight, const Values& bias,
                                           int64_t first) {
    of_channels(weight, first, scale, 1.0F);
    of_channels(bias, first, shift);
  }
  // Of those whose weights and biases are in shared memory, `apart` elements apart.
  __device__ __forceinline__ AffineColumns(const SharedSpan<float>& parameters, int column,
                                           int apart) {
    const auto weight = parameters.load<kWidth>(column);
    const auto bias = parameters.load<kWidth>(apart + column);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      scale[i] = weight[i];
      shift[i] = bias[i];
    }
  }
  // normal(i): of the i-th column.
  template <class NormalOf>
  __device__ __forceinline__ void normalise(const NormalOf& normal) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const Normal n = normal(i);
      mean[i] = n.mean;
      scale[i] *= n.rstd;
    }
  }
  // By what is stored or given of the channels from `first` on, of which what is given is asked for
  // at once.
  __device__ __forceinline__ void normalise(const Statistics& statistics, int64_t first) {
    if (!statistics.given) {
      return normalise([&](int i) { return statistics.stored(first + i); });
    }
    float variance[kWidth];
    of_channels(statistics.running_mean, first, mean);
    of_channels(statistics.running_var, first, variance);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) scale[i] *= thread::rsqrt(variance[i] + statistics.eps);
  }
  __device__ __forceinline__ Vec<T, kWidth> operator()(const row::Packed<T, kWidth>& x) const {
    Vec<float, kWidth> out;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) out[i] = thread::fma(x[i] - mean[i], scale[i], shift[i]);
    return thread::convert<T>(out);
  }
};

#endif

}  // namespace ws::batch_norm
