// Sets whose elements lie in pieces, each a run of memory: NCHW, where a channel is N runs of HW
// elements, and a group the runs of its channels. A run need not start at a multiple of 16 bytes,
// and 49 elements of 16 bits (7 x 7) never do for long, so it is taken in windows: aligned vectors
// of 16 bytes, of the first and last of which only some elements belong to the run. They are loaded
// whole all the same, as long as they lie in the tensor, and stored element by element.
#pragma once

#include "kernels/batch_norm/values.hpp"
#include "warpsmith/row/cut.hpp"
#include "warpsmith/row/packed.hpp"

namespace ws::batch_norm {

// Of a run of `run` elements at any place, in windows of `width`.
constexpr int64_t windows_of_run(int64_t run, int64_t width, bool aligned) {
  return aligned ? run / width : (run + width - 2) / width + 1;
}
struct Pieces {
  int64_t count = 1;  // of a set
  int64_t stride = 0;
  int64_t run = 1;
  bool aligned = false;  // all runs start and end at a multiple of 16 bytes
  int64_t windows = 0;   // of a run
};

inline Pieces pieces_of(const Layout& layout, DType dtype) {
  Pieces pieces;
  const int64_t width = static_cast<int64_t>(16 / size_of(dtype));
  if (layout.axes > 0) pieces.run = layout.extents[static_cast<size_t>(layout.axes - 1)];
  if (layout.axes == 2) {
    pieces.count = layout.extents[0];
    pieces.stride = layout.strides[0][0];
  }
  const auto address = reinterpret_cast<int64_t>(layout.data[0]);
  pieces.aligned = address % 16 == 0 && pieces.run % width == 0 && pieces.stride % width == 0 &&
                   layout.sample[0] % width == 0 && layout.set[0] % width == 0;
  pieces.windows = windows_of_run(pieces.run, width, pieces.aligned);
  return pieces;
}
// Of a set, at most.
inline int64_t windows_of_set(const Layout& layout, DType dtype) {
  const Pieces pieces = pieces_of(layout, dtype);
  return pieces.count * pieces.windows;
}

inline bool runs_supported(const Layout& layout, DType dtype, Why& why) {
  if (!why.unless(layout.count > 0, "takes channels that hold something")) return false;
  const auto last = static_cast<size_t>(std::max(layout.axes - 1, 0));
  if (!why.unless(layout.axes <= 2 &&
                      (layout.axes == 0 ||
                       (layout.strides[0][last] == 1 && layout.channel_axis != layout.axes - 1)),
                  "takes channels that lie in runs (NCHW)")) {
    return false;
  }
  int64_t reach = 1;
  bool forward = layout.sample[0] >= 0 && layout.set[0] >= 0;
  for (size_t d = 0; static_cast<int>(d) < layout.axes; ++d) {
    reach += (layout.extents[d] - 1) * layout.strides[0][d];
    forward = forward && layout.strides[0][d] > 0;
  }
  if (layout.sets > 0) {
    reach += (layout.sets / layout.per - 1) * layout.sample[0] + (layout.per - 1) * layout.set[0];
  }
  if (!why.unless(forward && reach == layout.sets * layout.count,
                  "takes tensors without gaps: it loads what lies between runs")) {
    return false;
  }
  const auto misaligned = [&](size_t k) {
    return reinterpret_cast<uintptr_t>(layout.data[k]) % 16;
  };
  for (size_t k = 1; static_cast<int>(k) < layout.operands; ++k) {
    const bool alike = layout.strides[k] == layout.strides[0] &&
                       layout.sample[k] == layout.sample[0] && layout.set[k] == layout.set[0];
    if (!why.unless(alike && misaligned(k) == misaligned(0),
                    "takes tensors that lie alike, as far from a multiple of 16 bytes")) {
      return false;
    }
  }
  return why.unless(layout.sets <= kMostBlocks && windows_of_set(layout, dtype) <= kMostBlocks,
                    "takes up to ", kMostBlocks, " sets, each of as many vectors");
}

#if WS_DEVICE_CODE

// Of a set: elements [first, last) of the vector at `at`, all of piece `piece`.
struct Window {
  int64_t at;
  int first;
  int last;
  int piece;

  template <int kWidth>
  __device__ __forceinline__ bool is_full() const {
    return first == 0 && last == kWidth;
  }
  __device__ __forceinline__ bool has(int i) const { return i >= first && i < last; }
};

// Where sets and windows are. Elements are counted from the multiple of 16 bytes at or below a
// tensor's first, so that vectors are at multiples of kWidth.
template <class T>
struct Runs {
  static constexpr int kWidth = row::kWidest<T>;
  using Packed = row::Packed<T, kWidth>;

  const T* data[2];  // x, or grad and x
  T* out;
  int64_t begin;  // of the tensors' own elements
  int64_t end;
  thread::Divider of_sample;  // its sets
  int64_t sample;
  int64_t set;
  int64_t piece;  // from piece to piece
  int64_t run;
  int64_t windows;           // of a set
  thread::Divider of_piece;  // its windows
  int64_t width;             // channels of a set: piece p is of the p-th where there are several

  __device__ __forceinline__ int64_t sample_of(int64_t s) const {
    return of_sample.quotient(static_cast<uint32_t>(s));
  }
  // Of a set in its sample.
  __device__ __forceinline__ int64_t number(int64_t s) const {
    return s - sample_of(s) * of_sample.divisor();
  }
  __device__ __forceinline__ int64_t start(int64_t s) const {
    return begin + sample_of(s) * sample + number(s) * set;
  }
  // Of a set that starts at `start`.
  __device__ __forceinline__ Window window(int64_t start, int64_t w) const {
    const uint32_t p = of_piece.quotient(static_cast<uint32_t>(w));
    const int64_t k = w - static_cast<int64_t>(p) * of_piece.divisor();
    const int64_t from = start + p * piece;
    Window found;
    found.at = (from & ~int64_t{kWidth - 1}) + k * kWidth;
    const int64_t before = from - found.at;
    const int64_t left = before + run;
    found.first = static_cast<int>(before > 0 ? before : 0);
    found.last = static_cast<int>(left < kWidth ? left : kWidth);
    found.piece = static_cast<int>(p);
    return found;
  }
  // Whether the tensors have all of a window, its neighbours' elements too.
  __device__ __forceinline__ bool have(const Window& window) const {
    return window.at >= begin && window.at + kWidth <= end;
  }
  // A window of a tensor; elements beyond its ends are 0.
  __device__ __forceinline__ Packed load(int k, const Window& window WS_AND_PLACE) const {
    if (have(window)) [[likely]] {
      return Packed::load(data[k] + window.at WS_PASS_AND_PLACE);
    }
    Vec<T, kWidth> elements{};
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      elements[i] = from_float<T>(0.0F);
      if (window.has(i)) elements[i] = thread::load(data[k] + window.at + i WS_PASS_AND_PLACE);
    }
    return std::bit_cast<Packed>(elements);
  }
  __device__ __forceinline__ void store(const Window& window,
                                        const Vec<float, kWidth>& values WS_AND_PLACE) const {
    const Vec<T, kWidth> rounded = thread::convert<T>(values);
    if (window.template is_full<kWidth>()) {
      return thread::store(out + window.at, rounded WS_PASS_AND_PLACE);
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      if (window.has(i)) thread::store(out + window.at + i, rounded[i] WS_PASS_AND_PLACE);
    }
  }
};

template <class T>
Runs<T> runs_of(const Layout& layout, DType dtype) {
  const Pieces pieces = pieces_of(layout, dtype);
  const auto before =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(layout.data[0]) % 16 / sizeof(T));
  const auto aligned = [&](int k) { return layout.as<T>(k) - before; };
  Runs<T> runs{};
  for (int k = 0; k < layout.operands - 1; ++k) runs.data[k] = aligned(k);
  runs.out = aligned(layout.operands - 1);
  runs.begin = before;
  runs.end = before + layout.sets * layout.count;
  runs.of_sample = thread::Divider(std::max<int64_t>(layout.per, 1));
  runs.sample = layout.sample[0];
  runs.set = layout.set[0];
  runs.piece = pieces.stride;
  runs.run = pieces.run;
  runs.windows = pieces.count * pieces.windows;
  runs.of_piece = thread::Divider(pieces.windows);
  runs.width = layout.width;
  return runs;
}

// Windows w, w + kThreads, ... below `last`, and load(j) for each: all are under way before the
// first is waited for.
template <int kThreads, class T, int kLoads, class Load>
__device__ __forceinline__ void load_windows(const Runs<T>& runs, int64_t start, int64_t w,
                                             int64_t last, Window (&window)[kLoads],
                                             const Load& load) {
#pragma unroll
  for (int j = 0; j < kLoads; ++j) {
    window[j] = {};
    if (w + j * kThreads < last) {
      window[j] = runs.window(start, w + j * kThreads);
      load(j);
    }
  }
}

// Adds what a window holds.
template <int kWidth, class Packed>
__device__ __forceinline__ void add(Running& running, const Window& window, const Packed& x) {
  if (window.is_full<kWidth>()) return running.add_all<kWidth>(x);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    if (window.has(i)) running.add(x[i]);
  }
}
template <int kWidth, class Packed>
__device__ __forceinline__ void add(Sums& sums, const Window& window, const Packed& grad,
                                    const Packed& x, float mean) {
  const bool full = window.is_full<kWidth>();
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    if (full || window.has(i)) sums.add(grad[i], x[i] - mean);
  }
}

// A window of dx.
template <class T>
__device__ __forceinline__ void store_gradient(const Runs<T>& runs, const Window& window,
                                               const Gradient& gradient,
                                               const typename Runs<T>::Packed& grad,
                                               const typename Runs<T>::Packed& x) {
  Vec<float, Runs<T>::kWidth> out;
#pragma unroll
  for (int i = 0; i < Runs<T>::kWidth; ++i) out[i] = gradient(grad[i], x[i]);
  runs.store(window, out);
}

// Of a channel.
struct Parameters {
  float weight;
  float bias;

  __device__ __forceinline__ static Parameters of(const Values& weight, const Values& bias,
                                                  int64_t c) {
    return {of_channel(weight, c, 1.0F), of_channel(bias, c)};
  }
};

// What a set's elements become: (x - mean) * scale + bias, with the parameters of its channels.
template <class T>
struct Affine {
  Values weight;
  Values bias;
  Normal normal;
  int64_t first;  // channel
  float scale;
  float shift;
  bool several;

  __device__ __forceinline__ Affine(const Values& w, const Values& b, const Runs<T>& runs,
                                    int64_t s, const Normal& n)
      : Affine(w, b, runs, s, n, parameters(w, b, runs, s)) {}
  // Where those of its first channel have been fetched.
  __device__ __forceinline__ Affine(const Values& w, const Values& b, const Runs<T>& runs,
                                    int64_t s, const Normal& n, const Parameters& of_first)
      : weight(w), bias(b), normal(n), first(runs.number(s) * runs.width), several(runs.width > 1) {
    take(of_first);
  }
  __device__ __forceinline__ static Parameters parameters(const Values& w, const Values& b,
                                                          const Runs<T>& runs, int64_t s) {
    return Parameters::of(w, b, runs.number(s) * runs.width);
  }
  // Of a window of x.
  __device__ __forceinline__ Vec<float, Runs<T>::kWidth> operator()(
      const Window& window, const typename Runs<T>::Packed& x) {
    if (several) take(Parameters::of(weight, bias, first + window.piece));
    Vec<float, Runs<T>::kWidth> out;
#pragma unroll
    for (int i = 0; i < Runs<T>::kWidth; ++i) {
      out[i] = thread::fma(x[i] - normal.mean, scale, shift);
    }
    return out;
  }

 private:
  __device__ __forceinline__ void take(const Parameters& of) {
    scale = normal.rstd * of.weight;
    shift = of.bias;
  }
};

#endif

}  // namespace ws::batch_norm
