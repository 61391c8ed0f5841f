// RowTile: a row in the registers of the threads that share it, as it came from memory.
#pragma once

#include "kernels/softmax/rows.hpp"

#if defined(WS_EMULATED) || defined(__CUDACC__)
namespace ws::softmax {

// A thread's part of a row that kLanes threads share: vectors lane, lane + kLanes, ... (neighbours
// load neighbours), and elements lane, ... of the edges. Places beyond the row hold Op's padding.
// Narrow floats stay as they are: in f32 they would take twice the registers.
template <class T, class Op, int kWidth, int kLanes, int kVectors, Fit kFit = Fit::kAnywhere>
class RowTile {
  static constexpr int kInputs = Op::kInputs;
  static constexpr int kEdges =
      kFit != Fit::kAnywhere ? 0 : (2 * (kWidth - 1) + kLanes - 1) / kLanes;
  static constexpr int kEdgeSlots = kEdges > 0 ? kEdges : 1;  // an array has at least one

 public:
  static constexpr int kElements = kVectors * kWidth + kEdges;
  static constexpr int64_t kCapacity = static_cast<int64_t>(kLanes) * kVectors * kWidth;
  using Elements = Tile<typename Op::Element, kElements>;
  using RowOf = Row<T, Op, kWidth, kFit>;
  using PackedVector = Packed<T, kWidth>;

  // All loads are issued before anything waits for one.
  template <Cache kCache = Cache::kDefault>
  __device__ __forceinline__ RowTile(const RowOf& row, int lane)
      : lane_(lane), vectors_(static_cast<int>(row.vectors)), op_(row.op), edge_count_(row.edges) {
    fill(row, [&](int k, int v) {
      const T* from = row.inputs[k] + row.head + lane * kWidth;
      return PackedVector::template load<kCache>(from + v * kLanes * kWidth);
    });
    if constexpr (Op::kMasked) fill_mask(row);
  }

  // The same with the vectors from elsewhere: load(input, vector), where they have been staged.
  template <class Load>
  __device__ __forceinline__ RowTile(const RowOf& row, int lane, const Load& load)
      : lane_(lane), vectors_(static_cast<int>(row.vectors)), op_(row.op), edge_count_(row.edges) {
    static_assert(!Op::kMasked, "a mask would have to be staged too");
    fill(row,
         [&](int k, int v) { return std::bit_cast<PackedVector>(load(k, lane + v * kLanes)); });
  }

  __device__ __forceinline__ Elements elements() const {
    Tile<Values<kInputs>, kElements> values;
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) values[v * kWidth + i][k] = packed_[k][v][i];
      }
#pragma unroll
      for (int e = 0; e < kEdges; ++e) values[kVectors * kWidth + e][k] = edges_[k][e];
    }
    if constexpr (Op::kMasked) {
      Elements elements;
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        const int v = i / kWidth;
        const int e = i - kVectors * kWidth;
        const bool inside = e < 0 ? holds(v) : lane_ + e * kLanes < edge_count_;
        const bool keep = e < 0 ? mask_[v][i % kWidth] : mask_edges_[e];
        elements[i] = op_.prepare(values[i], keep, inside);
      }
      return elements;
    } else {
      return values;
    }
  }

  // Writes f(element) for each element of the row; `elements` as elements() ordered them.
  template <Cache kCache = Cache::kDefault, class F>
  __device__ __forceinline__ void store(const RowOf& row, const Elements& elements,
                                        const F& f) const {
    T* to = row.output + row.head + lane_ * kWidth;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      Vec<float, kWidth> out;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) out[i] = f(elements[v * kWidth + i]);
      if (holds(v)) thread::store<kCache>(to + v * kLanes * kWidth, thread::convert<T>(out));
    }
#pragma unroll
    for (int e = 0; e < kEdges; ++e) {
      const int at = lane_ + e * kLanes;
      if (at < row.edges) row.store_edge(at, f(elements[kVectors * kWidth + e]));
    }
  }

 private:
  __device__ __forceinline__ bool holds(int v) const {
    return kFit == Fit::kFull || lane_ + v * kLanes < vectors_;
  }

  // packed(input, v) is the thread's v-th vector.
  template <class Load>
  __device__ __forceinline__ void fill(const RowOf& row, const Load& packed) {
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        if constexpr (kFit != Fit::kFull) packed_[k][v] = PackedVector::filled(Op::kPadding);
        if (holds(v)) packed_[k][v] = packed(k, v);
      }
#pragma unroll
      for (int e = 0; e < kEdges; ++e) {
        const int at = lane_ + e * kLanes;
        edges_[k][e] = at < row.edges ? to_float(row.load_edge(k, at)) : Op::kPadding;
      }
    }
  }
  __device__ __forceinline__ void fill_mask(const RowOf& row) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      mask_[v] = {};
      if (holds(v)) mask_[v] = row.load_mask(lane_ + v * kLanes);
    }
#pragma unroll
    for (int e = 0; e < kEdges; ++e) {
      const int at = lane_ + e * kLanes;
      mask_edges_[e] = at < row.edges && row.load_mask_edge(at);
    }
  }

  int lane_;
  int vectors_;
  PackedVector packed_[kInputs][kVectors];
  float edges_[kInputs][kEdgeSlots];
  // Of masked operations alone.
  Op op_;
  int edge_count_;
  typename RowOf::MaskVector mask_[Op::kMasked ? kVectors : 1];
  bool mask_edges_[kEdgeSlots];
};

}  // namespace ws::softmax
#endif
