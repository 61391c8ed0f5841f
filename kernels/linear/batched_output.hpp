// The epilogue before any store of gemm's batched Hopper kernels: what is added to a piece of a
// tile is loaded as the piece is finished.
#pragma once

#include "kernels/gemm/batched_parts.hpp"
#include "kernels/linear/epilogue.hpp"
#include "kernels/linear/pairs.hpp"

namespace ws::linear {

// Base stores what becomes of the sums. T: of what is added, of which neighbours in a row are one
// access where kByPairs. There is one path, whatever is added: a launch of a few microseconds waits
// for its instructions, too.
template <class Base, class T, bool kByPairs>
struct BatchedFinishedOutput : Base {
  Epilogue<T> epilogue;
  int64_t source_batch;  // stride
  int m, n;              // of what is added; 0 where nothing is

  template <class Store>
  static BatchedFinishedOutput of(const BatchedCall& call) {
    BatchedFinishedOutput output{Base::template of<Store>(call), Epilogue<T>(call),
                                 call.source.batch, static_cast<int>(call.m),
                                 static_cast<int>(call.n)};
    if (call.source.data == nullptr) {  // a pointer to somewhere, which nobody reads
      output.epilogue.source = call.c.template as<const T>();
      output.epilogue.row = output.epilogue.column = output.source_batch = 0;
      output.m = output.n = 0;
    }
    return output;
  }

  // What is added to kCount pairs of a lane's sums from (row, column) on, pair by pair: a row, the
  // row eight below it, the next eight columns.
  template <int kCount>
  __device__ __forceinline__ void load(Pair<T>* pairs, int matrix, int row, int column) const {
    const int i = row + lane_index() / 4;
    const int j = column + lane_index() % 4 * 2;
    const T* const first =
        epilogue.source + matrix * source_batch + i * epilogue.row + j * epilogue.column;
    const auto from = [&](int e) {
      return first + e % 2 * 8 * epilogue.row + e / 2 * 8 * (kByPairs ? 1 : epilogue.column);
    };
    const auto is_there = [&](int e, int second) {
      return i + e % 2 * 8 < m && j + e / 2 * 8 + second < n;
    };
    if constexpr (kByPairs) {
      load_pairs<T, kCount>(pairs, from, is_there);
    } else {
      load_halves<T, kCount>(pairs, epilogue.column, from, is_there);
    }
  }

  template <class Store>
  __device__ __forceinline__ void put(Store& store, int matrix, int row, int column,
                                      const float* sums) const {
    constexpr int kSums = Store::kColumns / 2;
    Pair<T> pairs[kSums / 2];
    load<kSums / 2>(pairs, matrix, row, column);
    float y[kSums];
#pragma unroll
    for (int s = 0; s < kSums; ++s) {
      y[s] = epilogue.alpha * sums[s] + epilogue.beta * pairs[s / 2][s % 2];
    }
    Base::put(store, matrix, row, column, y);
  }
};

}  // namespace ws::linear
