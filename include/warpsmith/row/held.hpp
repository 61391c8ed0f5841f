// Share and Held: a row in the registers of the threads that share it.
#pragma once

#include <cmath>
#include <type_traits>

#include "warpsmith/row/cut.hpp"
#include "warpsmith/row/packed.hpp"
#include "warpsmith/thread/forget.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/thread/tile.hpp"

#if WS_DEVICE_CODE
namespace ws::row {

// Which elements of a row are one thread's, of kLanes threads that share it: vectors lane,
// lane + kLanes, ... (neighbours load neighbours), and elements lane, ... of the edges. Their
// values are numbered 0 to kElements - 1, vectors first; loops over them unroll.
template <int kWidth_, int kLanes_, int kVectors_, Fit kFit_ = Fit::kAnywhere>
struct Share {
  static constexpr int kWidth = kWidth_;
  static constexpr int kLanes = kLanes_;
  static constexpr int kVectors = kVectors_;
  static constexpr Fit kFit = kFit_;
  static constexpr int kStride = kLanes * kWidth;  // elements between a thread's vectors
  static constexpr int kEdges =
      kFit != Fit::kAnywhere ? 0 : (2 * (kWidth - 1) + kLanes - 1) / kLanes;
  static constexpr int kElements = kVectors * kWidth + kEdges;
  static constexpr int64_t kCapacity = static_cast<int64_t>(kLanes) * kVectors * kWidth;
  using CutOf = Cut<kWidth, kFit>;

  int lane;
  int vectors;
  CutOf cut;

  __device__ __forceinline__ Share(const CutOf& row, int thread)
      : lane(thread), vectors(static_cast<int>(row.vectors)), cut(row) {}

  // Whether the row has the thread's v-th vector, its e-th edge.
  __device__ __forceinline__ bool holds(int v) const {
    return kFit == Fit::kFull || lane + v * kLanes < vectors;
  }
  __device__ __forceinline__ bool holds_edge(int e) const { return lane + e * kLanes < cut.edges; }
  __device__ __forceinline__ int64_t edge(int e) const { return cut.edge(lane + e * kLanes); }
  // Where the thread's first vector is in an operand whose row starts at `row`; the v-th is
  // v * kStride elements further. Found once, before it is asked which vectors the row has.
  template <class T>
  __device__ __forceinline__ T* first_vector(T* row) const {
    return row + cut.head + lane * kWidth;
  }
};

// A thread's share of a row of one operand, as it came from memory: narrow floats would take twice
// the registers in f32. What the row does not have is `padding`. Nothing until load().
template <class T, class Share>
class Held {
 public:
  using PackedVector = Packed<T, Share::kWidth>;

  // All loads are issued before anything waits for one.
  __device__ __forceinline__ void load(const Share& share, const T* row,
                                       float padding WS_AND_PLACE) {
    const T* first = share.first_vector(row);
    load(share, row, padding, [&](int v) {
      return PackedVector::load(first + v * Share::kStride WS_PASS_AND_PLACE);
    } WS_PASS_AND_PLACE);
  }

  // The same with the vectors from elsewhere: vector(v) gives the thread's v-th, where they have
  // been staged.
  template <class Vector>
  __device__ __forceinline__ void load(const Share& share, const T* row, float padding,
                                       const Vector& vector WS_AND_PLACE) {
    load(share, padding, vector,
         [&](int e) { return thread::load(row + share.edge(e) WS_PASS_AND_PLACE); });
  }
  // ... and the edges: edge(e) gives the thread's e-th.
  template <class Vector, class Edge>
    requires std::is_invocable_v<Edge, int>
  __device__ __forceinline__ void load(const Share& share, float padding, const Vector& vector,
                                       const Edge& edge) {
#pragma unroll
    for (int v = 0; v < Share::kVectors; ++v) {
      if constexpr (Share::kFit != Fit::kFull) packed_[v] = PackedVector::filled(padding);
      if (share.holds(v)) packed_[v] = vector(v);
    }
#pragma unroll
    for (int e = 0; e < Share::kEdges; ++e) {
      edges_[e] = share.holds_edge(e) ? to_float(edge(e)) : padding;
    }
  }

  // The thread's elements as Share numbers them, in f32.
  __device__ __forceinline__ thread::Tile<float, Share::kElements> values() const {
    thread::Tile<float, Share::kElements> values;
#pragma unroll
    for (int v = 0; v < Share::kVectors; ++v) {
#pragma unroll
      for (int i = 0; i < Share::kWidth; ++i) values[v * Share::kWidth + i] = packed_[v][i];
    }
#pragma unroll
    for (int e = 0; e < Share::kEdges; ++e) {
      values[Share::kVectors * Share::kWidth + e] = edges_[e];
    }
    return values;
  }

  // See row/packed.hpp.
  __device__ __forceinline__ void stay_packed() { row::stay_packed(packed_); }

  // The largest of them, of the padding too.
  __device__ __forceinline__ float largest() const {
    float largest = row::largest(packed_);
#pragma unroll
    for (int e = 0; e < Share::kEdges; ++e) largest = ::fmaxf(largest, edges_[e]);
    return largest;
  }

 private:
  PackedVector packed_[Share::kVectors];
  float edges_[Share::kEdges > 0 ? Share::kEdges : 1];  // an array has at least one
};

// Writes f(i) to the row at `row` for each of the thread's elements.
template <Cache kCache = Cache::kDefault, class T, class Share, class F>
__device__ __forceinline__ void store(const Share& share, T* row, const F& f WS_AND_PLACE) {
  constexpr int kWidth = Share::kWidth;
  T* first = thread::forget(share.first_vector(row));  // else found anew for each
#pragma unroll
  for (int v = 0; v < Share::kVectors; ++v) {
    Vec<float, kWidth> out;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) out[i] = f(v * kWidth + i);
    if (share.holds(v))
      thread::store<kCache>(first + v * Share::kStride, thread::convert<T>(out) WS_PASS_AND_PLACE);
  }
#pragma unroll
  for (int e = 0; e < Share::kEdges; ++e) {
    if (share.holds_edge(e)) {
      thread::store(row + share.edge(e),
                    from_float<T>(f(Share::kVectors * kWidth + e)) WS_PASS_AND_PLACE);
    }
  }
}

}  // namespace ws::row
#endif
