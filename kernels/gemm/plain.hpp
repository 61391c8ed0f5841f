// What the rungs for plain matrices share: dense, row-major, layout nn; any M, N, K.
#pragma once

#include "kernels/gemm/dispatch.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::gemm {

// What is loaded into registers may be narrower than what is multiplied. bf16 would be no news.
inline constexpr DTypes kPlainTypes = {DType::kF32, DType::kF16};

inline bool is_plain(const Call& call, Why& why) {
  const auto is_dense = [](const Matrix& matrix, int64_t rows, int64_t columns) {
    return (columns <= 1 || matrix.column == 1) && (rows <= 1 || matrix.row == columns);
  };
  return why.unless(is_dense(call.a, call.m, call.k), "needs a dense row-major a of layout n") &&
         why.unless(is_dense(call.b, call.k, call.n), "needs a dense row-major b of layout n") &&
         why.unless(is_dense(call.c, call.m, call.n), "needs a dense row-major c");
}

// The same, with 32-bit indices inside a matrix's row and column.
inline bool is_plain_tiled(const Call& call, Why& why) {
  return is_plain(call, why) && runs_supported(call, why);
}

template <class T>
struct PlainArguments {
  const T* a;  // [M, K]
  const T* b;  // [K, N]
  T* c;        // [M, N]
  int m, n, k;
  bool a_by_four, b_by_four, c_by_four;  // every row starts where four elements are one access
  bool a_aligned, b_aligned, c_aligned;  // the same of 16 bytes
};

template <class T>
PlainArguments<T> plain_arguments(const Call& call) {
  const auto by = [](int elements, const Matrix& matrix, int64_t columns) {
    return reinterpret_cast<uintptr_t>(matrix.data) % (elements * sizeof(T)) == 0 &&
           columns % elements == 0;
  };
  constexpr int kAligned = 16 / sizeof(T);
  return {.a = call.a.as<const T>(),
          .b = call.b.as<const T>(),
          .c = call.c.as<T>(),
          .m = static_cast<int>(call.m),
          .n = static_cast<int>(call.n),
          .k = static_cast<int>(call.k),
          .a_by_four = by(4, call.a, call.k),
          .b_by_four = by(4, call.b, call.n),
          .c_by_four = by(4, call.c, call.n),
          .a_aligned = by(kAligned, call.a, call.k),
          .b_aligned = by(kAligned, call.b, call.n),
          .c_aligned = by(kAligned, call.c, call.n)};
}

#if WS_DEVICE_CODE
// A block of Kernel for each tile of C.
template <class Kernel, class T>
void launch_tiles(const Call& call, int tile_m, int tile_n, Stream stream) {
  launch<Kernel>({.blocks = divide_up(call.m, tile_m) * divide_up(call.n, tile_n),
                  .threads = Kernel::kThreads},
                 stream, plain_arguments<T>(call));
}

// First row and column of this block's tile.
struct TilePlace {
  int row;
  int column;
};
__device__ __forceinline__ TilePlace tile_place(int n, int tile_m, int tile_n) {
  const int tiles_n = divide_up(n, tile_n);
  const auto block = static_cast<int>(block_index());
  return {block / tiles_n * tile_m, block % tiles_n * tile_n};
}

// N elements of a row of which `left` are left, zeros after them: one access where the rows allow
// it, which `whole` says.
template <int N, class T>
__device__ __forceinline__ Vec<T, N> load_piece(const T* from, int left, bool whole WS_AND_PLACE) {
  Vec<T, N> piece{};
  if (whole && left >= N) {
    piece = thread::load<N>(from WS_PASS_AND_PLACE);
  } else if constexpr (sizeof(T) == 2) {
    // By words: written one by one, 16-bit elements would get a register each, here and above.
    uint32_t words[N / 2] = {};
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (i < left) {
        words[i / 2] |= uint32_t{thread::load(from + i WS_PASS_AND_PLACE).bits} << i % 2 * 16;
      }
    }
    std::memcpy(&piece, words, sizeof(piece));
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (i < left) piece[i] = thread::load(from + i WS_PASS_AND_PLACE);
    }
  }
  return piece;
}
template <class T, int N>
__device__ __forceinline__ void store_piece(T* to, const Vec<T, N>& piece, int left,
                                            bool whole WS_AND_PLACE) {
  if (whole && left >= N) {
    thread::store(to, piece WS_PASS_AND_PLACE);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (i < left) thread::store(to + i, piece[i] WS_PASS_AND_PLACE);
    }
  }
}

// Four of them as f32.
template <class T>
__device__ __forceinline__ Vec<float, 4> load_four(const T* from, int left,
                                                   bool by_four WS_AND_PLACE) {
  return thread::convert<float>(load_piece<4>(from, left, by_four WS_PASS_AND_PLACE));
}
template <class T>
__device__ __forceinline__ void store_four(T* to, const Vec<float, 4>& four, int left,
                                           bool by_four WS_AND_PLACE) {
  store_piece(to, thread::convert<T>(four), left, by_four WS_PASS_AND_PLACE);
}

// A slice of A, kTileM rows of kSlice, and one of B, kSlice rows of kTileN, of the tile at `first`:
// to rows that lie pitch_a and pitch_b elements apart. What the matrices do not have is zero.
template <int kTileM, int kTileN, int kSlice, int kThreads, class T>
__device__ __forceinline__ void load_slices(SharedSpan<T> to_a, int pitch_a, SharedSpan<T> to_b,
                                            int pitch_b, const PlainArguments<T>& g,
                                            TilePlace first, int slice WS_AND_PLACE) {
#pragma unroll
  for (int at = thread_index() * 4; at < kTileM * kSlice; at += kThreads * 4) {
    const int i = at / kSlice;
    const int k = at % kSlice;
    const int left = first.row + i < g.m ? g.k - slice - k : 0;
    const T* const from = g.a + int64_t{first.row + i} * g.k + slice + k;
    to_a.template store<4>(i * pitch_a + k, load_piece<4>(from, left, g.a_by_four WS_PASS_AND_PLACE)
                                                WS_PASS_AND_PLACE);
  }
#pragma unroll
  for (int at = thread_index() * 4; at < kSlice * kTileN; at += kThreads * 4) {
    const int k = at / kTileN;
    const int j = at % kTileN;
    const int left = slice + k < g.k ? g.n - first.column - j : 0;
    const T* const from = g.b + int64_t{slice + k} * g.n + first.column + j;
    to_b.template store<4>(k * pitch_b + j, load_piece<4>(from, left, g.b_by_four WS_PASS_AND_PLACE)
                                                WS_PASS_AND_PLACE);
  }
}
#endif

}  // namespace ws::gemm
