// Tile<T, N>: the values of one thread, in registers, with what a kernel does to all of them.
//
// Loops over a tile are unrolled, so that every index is a constant and the tile never leaves the
// registers.
#pragma once

#include <utility>

#include "warpsmith/device.hpp"

#if WS_DEVICE_CODE
namespace ws::thread {

// An aggregate that starts uninitialised: Tile<float, 8> t; or Tile<float, 8> t{}; for zeros.
template <class T, int N>
struct Tile {
  static_assert(N > 0);

  T values[N];

  __device__ __forceinline__ T& operator[](int i) { return values[i]; }
  __device__ __forceinline__ const T& operator[](int i) const { return values[i]; }
  __host__ __device__ static constexpr int size() { return N; }
};

// f(0), f(1), ..., f(N - 1): also of types that do not begin empty.
template <int N, class F>
__device__ __forceinline__ auto tile_of(const F& f) {
  const auto make = [&]<int... kIndices>(std::integer_sequence<int, kIndices...> /*indices*/) {
    return Tile<decltype(f(0)), N>{{f(kIndices)...}};
  };
  return make(std::make_integer_sequence<int, N>());
}

// f of every value, as a tile.
template <class T, int N, class F>
__device__ __forceinline__ auto map(const Tile<T, N>& tile, const F& f) {
  Tile<decltype(f(tile[0])), N> result;
#pragma unroll
  for (int i = 0; i < N; ++i) result[i] = f(tile[i]);
  return result;
}

// f(... f(f(initial, tile[0]), tile[1]) ..., tile[N - 1]).
template <class T, int N, class Accumulator, class F>
__device__ __forceinline__ Accumulator fold(const Tile<T, N>& tile, Accumulator initial,
                                            const F& f) {
  Accumulator result = initial;
#pragma unroll
  for (int i = 0; i < N; ++i) result = f(result, tile[i]);
  return result;
}

}  // namespace ws::thread
#endif
