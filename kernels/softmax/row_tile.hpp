// RowTile: a row of all operands in the registers of the threads that share it.
#pragma once

#include "kernels/softmax/rows.hpp"

#if WS_DEVICE_CODE
namespace ws::softmax {

// A thread's share of a row: of each input as it came from memory (row::Held), and of the mask.
// Places beyond the row hold Op's padding.
template <class T, class Op, int kWidth, int kLanes, int kVectors, Fit kFit = Fit::kAnywhere>
class RowTile {
  static constexpr int kInputs = Op::kInputs;
  using Share = row::Share<kWidth, kLanes, kVectors, kFit>;
  using Held = row::Held<T, Share>;

 public:
  static constexpr int kElements = Share::kElements;
  static constexpr int64_t kCapacity = Share::kCapacity;
  using Elements = Tile<typename Op::Element, kElements>;
  using RowOf = Row<T, Op, kWidth, kFit>;

  // All loads are issued before anything waits for one.
  __device__ __forceinline__ RowTile(const RowOf& row, int lane) : share_(row, lane), op_(row.op) {
#pragma unroll
    for (int k = 0; k < kInputs; ++k) held_[k].load(share_, row.inputs[k], Op::kPadding);
    if constexpr (Op::kMasked) load_mask(row);
  }

  // The same from where it has been staged: load(input, vector), edge(input, the edge's number).
  // Masks come from memory, and so are asked for first.
  template <class Load, class Edge>
  __device__ __forceinline__ RowTile(const RowOf& row, int lane, const Load& load, const Edge& edge)
      : share_(row, lane), op_(row.op) {
    if constexpr (Op::kMasked) load_mask(row);
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      held_[k].load(
          share_, Op::kPadding,
          [&](int v) {
            return std::bit_cast<typename Held::PackedVector>(load(k, lane + v * kLanes));
          },
          [&](int e) { return edge(k, lane + e * kLanes); });
    }
  }

  __device__ __forceinline__ Elements elements() const {
    Tile<Values<kInputs>, kElements> values;
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      const Tile<float, kElements> mine = held_[k].values();
#pragma unroll
      for (int i = 0; i < kElements; ++i) values[i][k] = mine[i];
    }
    if constexpr (Op::kMasked) {
      Elements elements;
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        const int v = i / kWidth;
        const int e = i - kVectors * kWidth;
        const bool inside = e < 0 ? share_.holds(v) : share_.holds_edge(e);
        const bool keep = e < 0 ? mask_[v][i % kWidth] : mask_edges_[e];
        elements[i] = op_.prepare(values[i], keep, inside);
      }
      return elements;
    } else {
      return values;
    }
  }

  // Writes f(element) for each element of the row; `elements` as elements() ordered them.
  template <class F>
  __device__ __forceinline__ void store(const RowOf& row, const Elements& elements,
                                        const F& f) const {
    row::store(share_, row.output, [&](int i) { return f(elements[i]); });
  }

 private:
  __device__ __forceinline__ void load_mask(const RowOf& row) {
    const uint8_t* first = share_.first_vector(row.mask);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      mask_[v] = {};
      if (share_.holds(v)) mask_[v] = RowOf::MaskVector::load(first + v * Share::kStride);
    }
#pragma unroll
    for (int e = 0; e < Share::kEdges; ++e) {
      mask_edges_[e] = share_.holds_edge(e) && thread::load(row.mask + share_.edge(e)) != 0;
    }
  }

  Share share_;
  Held held_[kInputs];
  // Of masked operations alone.
  Op op_;
  typename RowOf::MaskVector mask_[Op::kMasked ? kVectors : 1];
  bool mask_edges_[Share::kEdges > 0 ? Share::kEdges : 1];
};

}  // namespace ws::softmax
#endif
