// A thread's way to global memory: every access that is not an asynchronous copy or an atomic goes
// through load and store, so the emulator can check and count it.
#pragma once

#include <cstring>

#include "warpsmith/ptx/load.hpp"
#include "warpsmith/ptx/store.hpp"
#include "warpsmith/types.hpp"

namespace ws::thread {

// N elements from `pointer`, which is aligned to Vec<T, N>: one access of up to 16 bytes, as many
// of 16 as it takes beyond.
template <int N, Cache kCache = Cache::kDefault, class T>
__device__ __forceinline__ Vec<T, N> load(const T* pointer WS_AND_PLACE) {
  constexpr int kBytes = alignof(Vec<T, N>);
  static_assert(sizeof(Vec<T, N>) == N * sizeof(T));
  Vec<T, N> result;
#pragma unroll
  for (int at = 0; at < static_cast<int>(sizeof(result)); at += kBytes) {
    ptx::ld_global<kCache, kBytes>(reinterpret_cast<char*>(&result) + at,
                                   reinterpret_cast<const char*>(pointer) + at WS_PASS_AND_PLACE);
  }
  return result;
}

// One element.
template <Cache kCache = Cache::kDefault, class T>
__device__ __forceinline__ T load(const T* pointer WS_AND_PLACE) {
  return load<1, kCache>(pointer WS_PASS_AND_PLACE)[0];
}

// N elements to `pointer`, aligned as for load.
template <Cache kCache = Cache::kDefault, class T, int N>
__device__ __forceinline__ void store(T* pointer, const Vec<T, N>& value WS_AND_PLACE) {
  constexpr int kBytes = alignof(Vec<T, N>);
#pragma unroll
  for (int at = 0; at < static_cast<int>(sizeof(value)); at += kBytes) {
    ptx::st_global<kCache, kBytes>(reinterpret_cast<char*>(pointer) + at,
                                   reinterpret_cast<const char*>(&value) + at WS_PASS_AND_PLACE);
  }
}

// One element.
template <Cache kCache = Cache::kDefault, class T>
__device__ __forceinline__ void store(T* pointer, std::type_identity_t<T> value WS_AND_PLACE) {
  store<kCache>(
      pointer, Vec<T, 1> {
        {
          value
        }
      } WS_PASS_AND_PLACE);
}

// The elements of a Vec as another float type; narrowing pairs them, one instruction for two.
template <class To, class From, int N>
__device__ __forceinline__ Vec<To, N> convert(const Vec<From, N>& value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else {
    Vec<To, N> result;
    if constexpr (std::is_same_v<To, float> || N % 2 != 0) {
#pragma unroll
      for (int i = 0; i < N; ++i) result[i] = from_float<To>(to_float(value[i]));
    } else {
#pragma unroll
      for (int i = 0; i < N; i += 2) {
        const float low = to_float(value[i]);
        const float high = to_float(value[i + 1]);
        uint32_t pair = 0;
        if constexpr (std::is_same_v<To, half>) {
          pair = ptx::cvt_rn_f16x2_f32(low, high);
        } else if constexpr (std::is_same_v<To, bf16>) {
          pair = ptx::cvt_rn_bf16x2_f32(low, high);
        } else if constexpr (std::is_same_v<To, e4m3>) {
          pair = ptx::cvt_rn_satfinite_e4m3x2_f32(low, high);
        } else {
          static_assert(std::is_same_v<To, e5m2>);
          pair = ptx::cvt_rn_satfinite_e5m2x2_f32(low, high);
        }
        // As one word: taken apart by elements, the compiler would put it together again.
        std::memcpy(&result[i], &pair, 2 * sizeof(To));
      }
    }
    return result;
  }
}

}  // namespace ws::thread
