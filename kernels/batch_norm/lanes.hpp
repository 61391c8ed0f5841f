// Sets of few numbers, each in the registers of some lanes of a warp.
#pragma once

#include "kernels/batch_norm/runs.hpp"

namespace ws::batch_norm {

// Lanes that own a set, and windows each of them holds.
template <int kLanes_, int kWindows_>
struct LanesShape {
  static constexpr int kLanes = kLanes_;
  static constexpr int kWindows = kWindows_;
  static constexpr int kMost = kLanes * kWindows;  // windows of a set
  static constexpr int kThreads = 256;
  static constexpr int kSets = kThreads / kLanes;  // of a block
};
inline constexpr int64_t kMostWindowsOfLanes = 256;

// f.template operator()<Shape>() of the shape for sets of so many windows: two of a lane at least,
// where there are two, for merging over twice as many lanes is dearer; then of all lanes, as many
// as it takes.
template <class F>
void with_lanes(int64_t windows, const F& f) {
  const auto fits = [&]<class Shape>() {
    if (windows > Shape::kMost) return false;
    f.template operator()<Shape>();
    return true;
  };
  const auto any = [&]<class... Shapes>() {
    static_cast<void>((fits.template operator()<Shapes>() || ...));
  };
  any.template operator()<LanesShape<8, 1>, LanesShape<8, 2>, LanesShape<16, 2>, LanesShape<32, 2>,
                          LanesShape<32, 4>, LanesShape<32, 8>>();
}

inline bool lanes_supported(const Layout& layout, DType dtype, Why& why) {
  if (!runs_supported(layout, dtype, why)) return false;
  const int64_t windows = windows_of_set(layout, dtype);
  return why.unless(windows <= kMostWindowsOfLanes, "holds ", kMostWindowsOfLanes,
                    " vectors of a set, not ", windows);
}

#if WS_DEVICE_CODE

// A lane's windows of set s, from input k of kInputs; of none where there is no such set.
template <class T, class Shape, int kInputs>
struct LanesOfSet {
  using Packed = typename Runs<T>::Packed;
  static constexpr int kWidth = Runs<T>::kWidth;

  Window windows[Shape::kWindows];
  Packed elements[kInputs][Shape::kWindows]{};

  __device__ __forceinline__ LanesOfSet(const Runs<T>& runs, int64_t s, bool exists) {
    const int64_t start = exists ? runs.start(s) : 0;
#pragma unroll
    for (int v = 0; v < Shape::kWindows; ++v) {
      const int w = lane() + v * Shape::kLanes;
      windows[v] = {};
      if (!exists || w >= runs.windows) continue;
      windows[v] = runs.window(start, w);
#pragma unroll
      for (int k = 0; k < kInputs; ++k) elements[k][v] = runs.load(k, windows[v]);
    }
  }
  __device__ __forceinline__ static int lane() { return thread_index() % Shape::kLanes; }

  // One of the lane's first window. By selects of those that it has: an index that is not known
  // when compiled puts all that a lane holds into memory.
  __device__ __forceinline__ float any() const {
    float found = 0;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) found = windows[0].has(i) ? elements[0][0][i] : found;
    return found;
  }
  // f(v, i): element i of window v, of all that the lane has.
  template <class F>
  __device__ __forceinline__ void each(const F& f) const {
#pragma unroll
    for (int v = 0; v < Shape::kWindows; ++v) {
      if (windows[v].template is_full<kWidth>()) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) f(v, i);
      } else {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          if (windows[v].has(i)) f(v, i);
        }
      }
    }
  }
};

#endif

}  // namespace ws::batch_norm
