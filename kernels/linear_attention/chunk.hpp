// Chunks of 64 steps, which the rungs above the recurrence take at once:
//
//   out[i] = scale_out * (e^A[i] q[i] state + sum over j <= i of e^(A[i] - A[j]) <q[i], k[j]> v[j])
//   state  = e^A[63] state + sum over j of e^(A[63] - A[j]) k[j] v[j]^T
//
// where A[i] is the sum of the chunk's log_decay up to step i. Only differences of later and
// earlier sums are exponents, so that nothing overflows.
#pragma once

#include "kernels/linear_attention/walk.hpp"
#include "warpsmith/warp/scan.hpp"

namespace ws::linear_attention {

inline constexpr int kChunk = 64;

// Of walks on tensor cores: the rows that a state of `dim` has there, and of 64 columns of a block
// those that a warp holds of them, of which it also finds its part of a dot.
constexpr int64_t rows_of_state(int64_t dim) { return dim <= 64 ? 64 : dim <= 128 ? 128 : 256; }
constexpr int columns_of_warp(int64_t dim) { return dim <= 128 ? 64 : 32; }

// A walk cut into segments of whole chunks, which different blocks walk. With one there is nothing
// to know of it.
struct Segments {
  int64_t count = 1;
  int64_t chunks = 0;       // of each where there are several
  float* states = nullptr;  // [matrices, count, dim, value_dim]: before each segment but the first
  float* totals = nullptr;  // [matrices, count]: log2 of what a segment decays the state by
  bool finds_states = false;  // what each segment but the last adds, instead of outputs
};

#if WS_DEVICE_CODE
// log2 of the decays of the chunk's steps from `first` on, two a lane; steps from `end` on decay
// nothing.
__device__ __forceinline__ Vec<float, 2> chunk_decays(const Walk& walk, int64_t batch, int64_t head,
                                                      int64_t first, int64_t end WS_AND_PLACE) {
  Vec<float, 2> decays;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int64_t t = first + lane_index() * 2 + i;
    decays[i] = t < end ? log2_decay(walk, batch, head, t WS_PASS_AND_PLACE) : 0.0F;
  }
  return decays;
}

// Their sums up to each step; all lanes of a warp.
__device__ __forceinline__ Vec<float, 2> sums_of(const Vec<float, 2>& decays WS_AND_PLACE) {
  const auto add = [](float x, float y) { return x + y; };
  const float scanned = warp::inclusive_scan(decays[0] + decays[1], add WS_PASS_AND_PLACE);
  const float before = warp::shift_up(scanned, 0.0F WS_PASS_AND_PLACE);
  return {before + decays[0], scanned};
}

// What a block walks: a head's steps, and the columns of the state from `column` on. In 32 bits,
// of which registers are short.
struct BlockPlace {
  int batch, head, column;
};
__device__ __forceinline__ BlockPlace block_place(const Walk& walk, int64_t index, int columns) {
  const int blocks = divide_up(static_cast<int>(walk.value_dim), columns);
  const int heads = static_cast<int>(walk.heads);
  const int matrix = static_cast<int>(index) / blocks;
  return {matrix / heads, matrix % heads, static_cast<int>(index) % blocks * columns};
}
#endif

}  // namespace ws::linear_attention
