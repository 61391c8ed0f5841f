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
template <class F>
void with_columns(const Walk& walk, F&& f) {
  const int64_t most = 2 * device_facts().multiprocessors;  // as an SM holds two of 64 columns
  const auto blocks = [&](int64_t columns) {
    return walk.matrices() * divide_up(walk.value_dim, columns);
  };
  if (blocks(16) <= most) return f.template operator()<16>();
  if (blocks(32) <= most) return f.template operator()<32>();
  f.template operator()<64>();
}

#if WS_DEVICE_CODE
// (I + L)^-1 of a chunk, a block each, by blocks of 16: forward substitution in those of the
// diagonal, products for those below it.
template <class T, int kDim>
struct InverseKernel {
  static constexpr int kThreads = 128;
  static constexpr int kBlock = 16;
  static constexpr int kPitch = kChunk + 1;
  using Steps = attention::RowTile<T, kChunk, kDim, kThreads>;
  using Arguments = MmaWalkArguments;
  struct SharedStorage {
    SharedArray<T, Steps::kElements, 128> k;
    SharedArray<float, kChunk> sums;
    SharedArray<float, kChunk> beta;
    SharedArray<float, kChunk * kPitch> below;    // L
    SharedArray<float, kChunk * kPitch> inverse;  // zero above the diagonal
    SharedArray<float, 3 * kBlock * kPitch> products;
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
    for (int i = thread_index(); i < kChunk * kPitch; i += kThreads) shared.inverse[i] = 0;
    ptx::cp_async_wait_group<0>();
    ptx::barrier_sync();
    find_below(shared);
    ptx::barrier_sync();
    invert_diagonal(shared);
    ptx::barrier_sync();
    for (int distance = 1; distance < kChunk / kBlock; ++distance) multiply_back(shared, distance);

    T* const to = static_cast<T*>(const_cast<void*>(a.inverses)) + block_index() * kChunk * kChunk +
                  thread_index() / 2 * kChunk;
#pragma unroll
    for (int i = 0; i < kChunk / 2; i += 8) {
      const int column = thread_index() % 2 * kChunk / 2 + i;
      Vec<float, 8> eight;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        eight[j] = shared.inverse[thread_index() / 2 * kPitch + column + j];
      }
      thread::store(to + column, thread::convert<T>(eight));
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
        shared.below[row * kPitch + column] = column < row ? pairs[n][e] * weight : 0.0F;
      }
    }
  }

  // A thread a column.
  __device__ __forceinline__ static void invert_diagonal(SharedStorage& shared) {
    if (thread_index() >= kChunk) return;
    const int first = thread_index() / kBlock * kBlock;
    const int column = thread_index() % kBlock;
    float x[kBlock];
#pragma unroll
    for (int i = 0; i < kBlock; ++i) {
      x[i] = i == column ? 1.0F : 0.0F;
#pragma unroll
      for (int j = 0; j < i; ++j) x[i] -= shared.below[(first + i) * kPitch + first + j] * x[j];
      shared.inverse[(first + i) * kPitch + first + column] = x[i];
    }
  }

  // Block (a, b) of the inverse, a = b + distance, is -inverse(a, a) sum of L(a, c) inverse(c, b).
  __device__ __forceinline__ static void multiply_back(SharedStorage& shared, int distance) {
    const int blocks = kChunk / kBlock - distance;
    const auto for_each = [&](auto&& f) {
      for (int i = thread_index(); i < blocks * kBlock * kBlock; i += kThreads) {
        const int b = i / (kBlock * kBlock) * kBlock;
        f(b, b + distance * kBlock, i / kBlock % kBlock, i % kBlock);
      }
    };
    for_each([&](int b, int a, int row, int column) {
      float sum = 0;
      for (int k = b; k < a; ++k) {
        sum += shared.below[(a + row) * kPitch + k] * shared.inverse[k * kPitch + b + column];
      }
      shared.products[(b + row) * kPitch + column] = sum;
    });
    ptx::barrier_sync();
    for_each([&](int b, int a, int row, int column) {
      float sum = 0;
      for (int k = 0; k <= row; ++k) {
        sum +=
            shared.inverse[(a + row) * kPitch + a + k] * shared.products[(b + k) * kPitch + column];
      }
      shared.inverse[(a + row) * kPitch + b + column] = -sum;
    });
    ptx::barrier_sync();
  }
};
#endif

}  // namespace ws::linear_attention
