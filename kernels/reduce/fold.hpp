// fold: what a thread makes of the elements it loads.
#pragma once

#include "kernels/reduce/reducers.hpp"
#include "warpsmith/row/cut.hpp"
#include "warpsmith/thread/divide.hpp"

#if WS_DEVICE_CODE
namespace ws::reduce {

// Accesses of 16 bytes that a thread issues before it needs the first, of `loads` in all inputs
// together; 16 elements an access are more to unroll.
template <class Reducer>
constexpr int loads_of(int loads) {
  const int fewer = loads / (sizeof(typename Reducer::Element) == 1 ? 2 : 1) / Reducer::kInputs;
  return fewer > 0 ? fewer : 1;
}

template <class Reducer, int N>
using Operands = Vec<typename Reducer::Element, N>[Reducer::kInputs];

// One element more: the e-th of loaded vectors.
template <class Reducer, int N>
__device__ __forceinline__ typename Reducer::Accumulator add(
    const Reducer& reducer, const typename Reducer::Accumulator& total,
    const Operands<Reducer, N>& x, int e, int64_t index) {
  if constexpr (Reducer::kInputs == 1) {
    return reducer.add(total, x[0][e], index);
  } else {
    return reducer.add(total, x[0][e], x[1][e], index);
  }
}

// All elements of loaded vectors more; the first of them has the place `index`. A vector's own
// total comes first: chains are short and rounding errors stay small.
template <class Reducer, int N>
__device__ __forceinline__ typename Reducer::Accumulator add_all(
    const Reducer& reducer, const typename Reducer::Accumulator& total,
    const Operands<Reducer, N>& x, int64_t index) {
  auto own = Reducer::none();
#pragma unroll
  for (int e = 0; e < N; ++e) own = add<Reducer, N>(reducer, own, x, e, index + e);
  return Reducer::merge(total, own);
}

// The same for reducers that have a way of their own with vectors, and what begins and ends it.
template <class Reducer>
inline constexpr bool kHasRunning = requires { Reducer::template begin<4>(); };

template <class Reducer, int N>
__device__ __forceinline__ auto begin() {
  if constexpr (kHasRunning<Reducer>) {
    return Reducer::template begin<N>();
  } else {
    return Reducer::none();
  }
}
template <class Reducer, int N, class Running>
__device__ __forceinline__ Running go_on(const Reducer& reducer, const Running& total,
                                         const Operands<Reducer, N>& x, int64_t index) {
  if constexpr (kHasRunning<Reducer>) {
    return reducer.add_all(total, x[0], index);
  } else {
    return add_all<Reducer, N>(reducer, total, x, index);
  }
}
template <class Reducer, class Running>
__device__ __forceinline__ typename Reducer::Accumulator settle(const Reducer& reducer,
                                                                const Running& total) {
  if constexpr (kHasRunning<Reducer>) {
    return reducer.settle(total);
  } else {
    return total;
  }
}

// Where a row of each input starts.
template <class Reducer>
struct RowStart {
  const typename Reducer::Element* at[Reducer::kInputs];
};

// Vectors rank, rank + ranks, ... of [first, last) of a row that is cut so, kTile of them at a
// time.
template <int kTile, class Reducer, int kWidth>
__device__ __forceinline__ typename Reducer::Accumulator fold_vectors(const Reducer& reducer,
                                                                      const RowStart<Reducer>& row,
                                                                      const row::Cut<kWidth>& cut,
                                                                      int64_t first, int64_t last,
                                                                      int rank, int ranks) {
  auto total = begin<Reducer, kWidth>();
  const auto load = [&](Operands<Reducer, kWidth>& x, int64_t vector) {
#pragma unroll
    for (int k = 0; k < Reducer::kInputs; ++k) {
      x[k] = thread::load<kWidth>(row.at[k] + cut.at(vector));
    }
  };
  // A full tile of kCount vectors: all loads before the first use.
  const auto take = [&]<int kCount>(int64_t v) {
    Operands<Reducer, kWidth> x[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) load(x[i], v + i * ranks);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      total = go_on<Reducer, kWidth>(reducer, total, x[i], cut.at(v + i * ranks));
    }
  };
  constexpr int kHalf = kTile > 1 ? kTile / 2 : 1;
  int64_t v = first + rank;
  for (; v + (kTile - 1) * ranks < last; v += int64_t{kTile} * ranks) {
    take.template operator()<kTile>(v);
  }
  if (v + (kHalf - 1) * ranks < last) {
    take.template operator()<kHalf>(v);
    v += int64_t{kHalf} * ranks;
  }
  if (v < last) {
    // Less than half a tile: all loads at once too, those beyond the end repeat the last vector.
    // Chosen, not skipped: behind a branch the compiler would put each load next to its use.
    Operands<Reducer, kWidth> x[kHalf];
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const int64_t at = v + i * ranks;
      load(x[i], at < last ? at : last - 1);
    }
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const auto more = go_on<Reducer, kWidth>(reducer, total, x[i], cut.at(v + i * ranks));
      total = v + i * ranks < last ? more : total;
    }
  }
  return settle(reducer, total);
}

// Elements before and after the vectors, one by one.
template <class Reducer, int kWidth>
__device__ __forceinline__ typename Reducer::Accumulator fold_edges(const Reducer& reducer,
                                                                    const RowStart<Reducer>& row,
                                                                    const row::Cut<kWidth>& cut,
                                                                    int rank, int ranks) {
  auto total = Reducer::none();
#pragma unroll 1
  for (int i = rank; i < cut.edges; i += ranks) {
    Operands<Reducer, 1> x;
#pragma unroll
    for (int k = 0; k < Reducer::kInputs; ++k) x[k] = thread::load<1>(row.at[k] + cut.edge(i));
    total = add<Reducer, 1>(reducer, total, x, 0, cut.edge(i));
  }
  return total;
}

// Whether rows can be read 16 bytes at a time: two inputs have to reach a multiple of 16 bytes
// after the same number of elements.
inline bool rows_supported(const Reduction& call, Why& why) {
  const auto address = [&](int k) { return reinterpret_cast<uintptr_t>(call.inputs[k]); };
  return why.unless(call.has_rows(), "takes rows whose elements lie side by side") &&
         why.unless(call.inputs[1] == nullptr || (address(0) - address(1)) % 16 == 0,
                    "reads 16 bytes at a time, but the inputs are not aligned alike");
}

}  // namespace ws::reduce
#endif
