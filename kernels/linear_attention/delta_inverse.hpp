// The triangular inverses of the delta rule, of all chunks at one time: (I + L)^-1, where L[t][s] =
// beta[s] e^(A[t] - A[s]) <k[t], k[s]> below the diagonal.
#pragma once

#include "kernels/linear_attention/mma_walk.hpp"

namespace ws::linear_attention {

inline int64_t chunks_of(const Walk& walk) {
  return walk.matrices() * divide_up(walk.steps, int64_t{kChunk});
}
inline size_t inverses_bytes(const Walk& walk, DType dtype) {
  return static_cast<size_t>(chunks_of(walk) * kChunk * kChunk) * size_of(dtype);
}

// f<kColumns>(): of a block of a walk. A chunk waits for the one before it, so that time is what an
// SM's warps wait for: where heads are few, more blocks of fewer columns each wait for less, and
// for each other.
template <int kDim, class F>
void with_columns(const Walk& walk, F&& f) {
  constexpr int64_t kOfSm = kDim > 128 ? 1 : 2;  // blocks of 64 columns that an SM holds
  const int64_t most = kOfSm * device_facts().multiprocessors;
  const auto blocks = [&](int64_t columns) {
    return walk.matrices() * divide_up(walk.value_dim, columns);
  };
  if constexpr (kDim <= 128) {
    if (blocks(16) <= most) return f.template operator()<16>();
  }
  if (blocks(32) <= most) return f.template operator()<32>();
  f.template operator()<64>();
}

#if WS_DEVICE_CODE
// (I + L)^-1 of a chunk, a block each: forward substitution, a thread a column, which it has in
// registers. Elements of L are what all lanes ask for at one time, four at once.
template <class T, int kDim>
struct InverseKernel {
  static constexpr int kThreads = 128;
  static constexpr int kMinBlocks = 4;  // five would spill
  // Between columns of L: whole vectors, and what a warp has of pairs goes to 32 banks.
  static constexpr int kPitch = kChunk + 4;
  using Steps = attention::RowTile<T, kChunk, kDim, kThreads>;
  using Arguments = MmaWalkArguments;
  struct SharedStorage {
    SharedArray<T, Steps::kElements, 128> k;
    SharedArray<float, kChunk> sums;
    SharedArray<float, kChunk> beta;
    SharedArray<float, kChunk * kPitch> below;  // L, by columns
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const Walk& walk = a.walk;
    const int chunks = divide_up(static_cast<int>(walk.steps), kChunk);
    const int heads = static_cast<int>(walk.heads);
    const int matrix = static_cast<int>(block_index()) / chunks;
    const int chunk = static_cast<int>(block_index()) % chunks;
    const int first = chunk == 0 ? 0 : a.first_steps + (chunk - 1) * kChunk;
    const int end =
        std::min(first + (chunk == 0 ? a.first_steps : kChunk), static_cast<int>(walk.steps));
    const int rows = end - first;
    const BlockPlace at = {matrix / heads, matrix % heads, 0};
    auto keys = Steps::strided(walk.k.at<const T>(at.batch, at.head, first), walk.k.row);
    Steps::copy(shared.k.span(), keys, static_cast<const T*>(walk.k.data), rows,
                static_cast<int>(walk.dim));
    ptx::cp_async_commit_group();
    if (warp_index() == 0) {
      const auto sums = sums_of(chunk_decays(walk, at.batch, at.head, first, end));
      shared.sums.template store<2>(lane_index() * 2, sums);
    }
    if (thread_index() < kChunk) {
      shared.beta[thread_index()] =
          thread_index() < rows
              ? thread::load(walk.beta.at(at.batch, at.head, first + thread_index()))
              : 0.0F;
    }
    ptx::cp_async_wait_group<0>();
    ptx::barrier_sync();
    find_below(shared);
    ptx::barrier_sync();
    const SharedSpan<T> inverse{shared.k.pointer(), kChunk * kChunk};  // nobody reads keys any more
    // A scheduler has every fourth warp. Which two have columns changes from block to block, and on
    // an SM, of which there may be a multiple of four.
    const int half = (warp_index() + static_cast<int>(block_index() % 5)) % 4;
    if (half < 2) invert(shared.below.span(), inverse, half);
    ptx::barrier_sync();
    T* const to = static_cast<T*>(const_cast<void*>(a.inverses)) + block_index() * inverse.size();
#pragma unroll
    for (int i = 0; i < kChunk * kChunk; i += kThreads * 8) {
      const int place = i + thread_index() * 8;
      thread::store(to + place, inverse.template load<8>(place));
    }
  }

  static void run(const Arguments& a, Stream stream) {
    const int64_t chunks = chunks_of(a.walk);
    if (chunks == 0) return;
    launch<InverseKernel>({.blocks = chunks, .threads = kThreads}, stream, a);
  }

 private:
  __device__ __forceinline__ static void find_below(SharedStorage& shared) {
    const int warp_row = warp_index() * 16;
    const int left = Steps::template lane_offset<Steps::Order::kDown>(warp_row);
    const int right = Steps::template lane_offset<Steps::Order::kAcross>(0);
    Sums pairs = {};
#pragma unroll
    for (int d = 0; d < kDim; d += 16) {
      uint32_t rows[4];
      ptx::ldmatrix_x4(rows, shared.k.pointer(Steps::further(left, 0, d)));
#pragma unroll
      for (int n = 0; n < kChunk; n += 16) {
        if (n > warp_row) continue;
        uint32_t columns[4];
        ptx::ldmatrix_x4(columns, shared.k.pointer(Steps::further(right, n, d)));
        multiply_add<T>(pairs, n / 8, rows, columns);
      }
    }
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = warp_row + lane_index() / 4 + e / 2 * 8;
        const int column = n * 8 + lane_index() % 4 * 2 + e % 2;
        const float by = shared.sums[row];
        const float weight = shared.beta[column] * thread::exp2(by - shared.sums[column]);
        shared.below[column * kPitch + row] = column < row ? pairs[n][e] * weight : 0.0F;
      }
    }
  }

  // A column of either half: what a row of it is known to be, all rows below take off.
  __device__ __forceinline__ static void invert(SharedSpan<float> below, SharedSpan<T> inverse,
                                                int half) {
    const int column = half * kWarpSize + lane_index();
    float x[kChunk];
#pragma unroll
    for (int i = 0; i < kChunk; ++i) x[i] = i == column ? 1.0F : 0.0F;
    const auto take_off = [&](int k) {
#pragma unroll
      for (int i = (k + 1) / 4 * 4; i < kChunk; i += 4) {
        const auto four = below.template load<4>(k * kPitch + i);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (i + e > k) x[i + e] = thread::fma(-four[e], x[k], x[i + e]);
        }
      }
    };
    if (half == 0) {  // the other's columns begin below
#pragma unroll
      for (int k = 0; k < kWarpSize; ++k) take_off(k);
    }
#pragma unroll
    for (int k = kWarpSize; k < kChunk; ++k) take_off(k);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) inverse[i * kChunk + column] = from_float<T>(x[i]);
  }
};
#endif

}  // namespace ws::linear_attention
