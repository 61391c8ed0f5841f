// RowTile: a row in the registers of the threads that share it, as it came from memory.
#pragma once

#include "kernels/softmax/rows.hpp"

#if defined(WS_EMULATED) || defined(__CUDACC__)
namespace ws::softmax {

// A thread's part of a row that kLanes threads share: vectors lane, lane + kLanes, ... (neighbours
// load neighbours), and elements lane, ... of the edges. Places beyond the row hold Op's padding.
// Narrow floats stay as they are: in f32 they would take twice the registers.
template <class T, class Op, int kWidth, int kLanes, int kVectors>
class RowTile {
  static constexpr int kInputs = Op::kInputs;
  static constexpr int kEdges = (2 * (kWidth - 1) + kLanes - 1) / kLanes;
  static constexpr int kEdgeSlots = kEdges > 0 ? kEdges : 1;  // an array has at least one

 public:
  static constexpr int kElements = kVectors * kWidth + kEdges;
  static constexpr int64_t kCapacity = static_cast<int64_t>(kLanes) * kVectors * kWidth;
  using Elements = Tile<Values<kInputs>, kElements>;
  using RowOf = Row<T, kInputs, kWidth>;

  // All loads are issued before anything waits for one.
  template <Cache kCache = Cache::kDefault>
  __device__ __forceinline__ RowTile(const RowOf& row, int lane)
      : RowTile(row, lane, [&](int input, int vector) {
          return row.template load<kCache>(input, vector);
        }) {}

  // The same with the vectors from elsewhere: load(input, vector), where they have been staged.
  template <class Load>
  __device__ __forceinline__ RowTile(const RowOf& row, int lane, const Load& load) : lane_(lane) {
    const auto vectors = static_cast<int>(row.vectors);
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const int at = lane + v * kLanes;
        if (at < vectors) {
          vectors_[k][v] = load(k, at);
        } else {
#pragma unroll
          for (int i = 0; i < kWidth; ++i) vectors_[k][v][i] = from_float<T>(Op::kPadding);
        }
      }
#pragma unroll
      for (int e = 0; e < kEdges; ++e) {
        const int at = lane + e * kLanes;
        edges_[k][e] = at < row.edges ? row.load_edge(k, at) : from_float<T>(Op::kPadding);
      }
    }
  }

  __device__ __forceinline__ Elements elements() const {
    Elements elements;
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) elements[v * kWidth + i][k] = to_float(vectors_[k][v][i]);
      }
#pragma unroll
      for (int e = 0; e < kEdges; ++e) elements[kVectors * kWidth + e][k] = to_float(edges_[k][e]);
    }
    return elements;
  }

  // Writes f(element) for each element of the row; `elements` as elements() ordered them.
  template <Cache kCache = Cache::kDefault, class F>
  __device__ __forceinline__ void store(const RowOf& row, const Elements& elements,
                                        const F& f) const {
    const auto vectors = static_cast<int>(row.vectors);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int at = lane_ + v * kLanes;
      Vec<float, kWidth> out;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) out[i] = f(elements[v * kWidth + i]);
      if (at < vectors) row.template store<kCache>(at, out);
    }
#pragma unroll
    for (int e = 0; e < kEdges; ++e) {
      const int at = lane_ + e * kLanes;
      if (at < row.edges) row.store_edge(at, f(elements[kVectors * kWidth + e]));
    }
  }

 private:
  int lane_;
  Vec<T, kWidth> vectors_[kInputs][kVectors];
  T edges_[kInputs][kEdgeSlots];
};

}  // namespace ws::softmax
#endif
