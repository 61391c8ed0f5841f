// Idea: rows that start anywhere. A is read by the aligned vectors inside each row, x by its own;
//   two neighbours of x are shifted in registers until their elements stand beside those of A.
// From warp_vectors: dense matrices of odd K, and views of them.
// Traffic: A once, 16 bytes a lane; x twice a row, from L1 while it holds them.
// Limits: x starts at a multiple of 16 bytes. A shift is 9 instructions for 4 elements of f32, 15
//   for 8 of 16 bits; memory leaves time for some 100.
#pragma once

#include "kernels/gemv/rows.hpp"

namespace ws::gemv {

// Elements shift, shift + 1, ... of the 2 N that lower and upper are, one behind the other; shift
// is below N.
template <class T, int N>
__device__ __forceinline__ row::Packed<T, N> shifted(const row::Packed<T, N>& lower,
                                                     const row::Packed<T, N>& upper, int shift) {
  constexpr int kWords = row::Packed<T, N>::kWords;
  static_assert(kWords == 4);
  uint32_t words[2 * kWords];
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    words[i] = lower.words[i];
    words[kWords + i] = upper.words[i];
  }
  const int bytes = shift * static_cast<int>(sizeof(T));
#pragma unroll
  for (int i = 0; i < 6; ++i) words[i] = (bytes & 8) != 0 ? words[i + 2] : words[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) words[i] = (bytes & 4) != 0 ? words[i + 1] : words[i];
  row::Packed<T, N> result;
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    result.words[i] = words[i];
    if constexpr (sizeof(T) < 4) {
      const uint64_t two = words[i] | static_cast<uint64_t>(words[i + 1]) << 32;
      result.words[i] = static_cast<uint32_t>(two >> (bytes % 4 * 8));
    }
  }
  return result;
}

template <class T>
struct ShiftedRowsKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  static constexpr int kWidth = row::kWidest<T>;
  static constexpr int kLoads = 4;
  using Vector = row::Packed<T, kWidth>;
  using Arguments = RowArguments<T>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& g) const {
    const int64_t row = block_index() * kWarps + warp_index();
    if (row >= g.m) return;
    const int lane = lane_index();
    const T* a = g.a + row * g.pitch;
    const row::Cut<kWidth> cut(a, g.k);
    const int head = cut.head;
    // A shift takes the vector of x behind too: the last that there is can only be that one.
    const int whole = g.k / kWidth;
    const int vectors = head == 0 || whole == 0 ? whole : whole - 1;

    float sum = 0;
    for (int v = lane; v < vectors; v += kLoads * kWarpSize) {
      Vector of_a[kLoads];
      Vector lower[kLoads];
      Vector upper[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int vector = v + i * kWarpSize;
        const int64_t at = int64_t{vector} * kWidth;
        of_a[i] = row::load_or_zeros<kWidth>(a + head + at, vector < vectors);
        lower[i] = row::load_or_zeros<kWidth>(g.x + at, vector < vectors);
        upper[i] = row::load_or_zeros<kWidth>(g.x + at + kWidth, vector < vectors && head > 0);
      }
#pragma unroll
      for (int i = 0; i < kLoads; ++i) sum += dot(of_a[i], shifted(lower[i], upper[i], head));
    }
    // Before the first vector and behind the last: fewer elements than lanes.
    const int body = vectors * kWidth;
    if (lane < g.k - body) {
      const int at = lane < head ? lane : lane + body;
      sum = thread::fma(to_float(thread::load(a + at)), to_float(thread::load(g.x + at)), sum);
    }
    sum = warp::all_reduce(sum, [](float p, float q) { return p + q; });
    if (lane == 0) thread::store(g.y + row * g.y_step, from_float<T>(sum));
  }
};

struct ShiftedRows {
  static bool supports(const Call& call, Why& why) {
    return has_indexed_rows(call, why) &&
           why.unless(is_aligned(call.x, 0, call.dtype), "needs an x at a multiple of 16 bytes");
  }
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = ShiftedRowsKernel<T>;
      launch<Kernel>({.blocks = divide_up(call.m, Kernel::kWarps), .threads = Kernel::kThreads},
                     context.stream, RowArguments<T>(call));
    });
  }
};

inline constexpr Rung kShiftedRows = rung_of<ShiftedRows, Gemv>({
    .name = "shifted_rows",
    .from = "warp_vectors",
    .idea = "rows that start anywhere: x is shifted in registers to stand beside them",
});

}  // namespace ws::gemv
