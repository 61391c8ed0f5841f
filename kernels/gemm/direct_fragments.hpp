// Operands of mma.sync that go from memory straight into the registers of the lanes that multiply
// them. The order of K is free as long as both operands have the same: so the four lanes of a row
// take eight elements each of 32, one after the other in memory, where the instruction's own order
// would give them pairs.
#pragma once

#include <algorithm>
#include <bit>

#include "kernels/gemm/matrix_runs.hpp"
#include "warpsmith/ptx/bits.hpp"
#include "warpsmith/ptx/mma.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/thread/realign.hpp"

#if WS_DEVICE_CODE
namespace ws::gemm {

// No piece begins before a matrix that begins where pieces do, if its first run lies first.
template <class T>
Runs<T> direct_runs(const Matrix& matrix) {
  Runs<T> runs(matrix);
  if (runs.leading >= 0 && reinterpret_cast<uintptr_t>(runs.data) % 16 == 0) runs.heads = 0;
  return runs;
}

// A warp's share of an operand: kGroups groups of eight of the outer dimension (rows of A, columns
// of B) by 32 of K. Lane 4 g + t has of each group the g-th, and of K 8 t to 8 t + 7, in pairs.
// kBytes: at what multiples runs begin; 2: anywhere.
template <class T, bool kRunsAlongK, int kGroups, int kBytes>
struct DirectFragments {
  static constexpr int kDepth = 32;  // of K
  static constexpr int kOuter = 8 * kGroups;
  static constexpr int kOfLane = 8;  // of K
  static_assert(sizeof(T) == 2 && (kBytes == 8 || kBytes == 2));
  using Words = Vec<uint32_t, 4>;

  // Which of the kOuter the g-th of group i is: of runs along the outer dimension a lane's groups
  // are neighbours, which come in one load.
  __device__ __forceinline__ static constexpr int outer_of(int group, int g) {
    return kRunsAlongK ? group * 8 + g : g * kGroups + group;
  }

  // From `outer` and `k` on. What is outside of K is zero; outside the outer dimension it is
  // another row or column of the matrix. Branches are around all loads, not in each: one in a
  // branch of its own is waited for where the branches meet.
  __device__ __forceinline__ void load(const Runs<T>& m, int outer, int k WS_AND_PLACE) {
    if constexpr (kRunsAlongK) {
      const int last = std::min(outer + kOuter, m.count);
      // Pieces of 8 bytes begin with a run, and where it is made of them they end with it.
      const bool begins = kBytes == 8 || outer >= m.heads || k >= kOfLane;
      const bool ends =
          last <= m.tails || k + kDepth + kOfLane <= m.length || (kBytes == 8 && m.length % 4 == 0);
      const int at = k + lane_index() % 4 * kOfLane;
      const auto from = [&](int i) {
        const int run = std::min(outer + outer_of(i, lane_index() / 4), m.count - 1);
        return m.data + run * m.leading + at;
      };
      if (begins && ends) {
#pragma unroll
        for (int i = 0; i < kGroups; ++i) {
          words[i] = pieces(from(i), m.length - at WS_PASS_AND_PLACE);
        }
      } else {
#pragma unroll
        for (int i = 0; i < kGroups; ++i) {
          words[i] = elements(from(i), m.length - at WS_PASS_AND_PLACE);
        }
      }
      if (k + kDepth > m.length) clear_behind(m.length - at);
    } else {
      const int at = outer + lane_index() / 4 * kGroups;
      const int first = k + lane_index() % 4 * kOfLane;
      const T* const from = m.data + first * m.leading;
      Vec<T, kGroups> rows[kOfLane] = {};
      if (kBytes >= 2 * kGroups && outer + kOuter <= m.length) {
#pragma unroll
        for (int j = 0; j < kOfLane; ++j) {
          if (first + j < m.count) {
            rows[j] = thread::load<kGroups>(from + j * m.leading + at WS_PASS_AND_PLACE);
          }
        }
      } else {
#pragma unroll
        for (int j = 0; j < kOfLane; ++j) {
#pragma unroll
          for (int i = 0; i < kGroups; ++i) {
            if (first + j < m.count) {
              const int column = std::min(at + i, m.length - 1);
              rows[j][i] = thread::load(from + j * m.leading + column WS_PASS_AND_PLACE);
            }
          }
        }
      }
#pragma unroll
      for (int i = 0; i < kGroups; ++i) {
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          words[i][w] = std::bit_cast<uint32_t>(Vec<T, 2>{rows[2 * w][i], rows[2 * w + 1][i]});
        }
      }
    }
  }

  Words words[kGroups];

 private:
  // Eight elements in loads of 8 bytes; where runs start anywhere, of the two pieces of 16
  // that they lie in. Those that begin behind the run's `left` elements are not loaded.
  __device__ __forceinline__ static Words pieces(const T* from, int left WS_AND_PLACE) {
    if constexpr (kBytes == 2) {
      const auto shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from) % 16);
      const auto before = static_cast<int>(shift / sizeof(T));
      Words piece[2] = {};
      if (left > 0) {
        piece[0] = std::bit_cast<Words>(thread::load<8>(from - before WS_PASS_AND_PLACE));
      }
      if (shift != 0 && left > 8 - before) {
        piece[1] = std::bit_cast<Words>(thread::load<8>(from - before + 8 WS_PASS_AND_PLACE));
      }
      return thread::realign<sizeof(T)>(piece[0], piece[1], shift);
    } else {
      Vec<uint32_t, 2> halves[2] = {};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (4 * i < left) {
          halves[i] =
              std::bit_cast<Vec<uint32_t, 2>>(thread::load<4>(from + 4 * i WS_PASS_AND_PLACE));
        }
      }
      return Words{halves[0][0], halves[0][1], halves[1][0], halves[1][1]};
    }
  }
  // The same at the matrix's ends, element by element.
  __device__ __forceinline__ static Words elements(const T* from, int left WS_AND_PLACE) {
    Vec<T, kOfLane> result = {};
#pragma unroll
    for (int e = 0; e < kOfLane; ++e) {
      if (e < left) result[e] = thread::load(from + e WS_PASS_AND_PLACE);
    }
    return std::bit_cast<Words>(result);
  }
  // What is behind the last of K may be anything, and a product with zero is not always zero.
  __device__ __forceinline__ void clear_behind(int left) {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const uint32_t mask = left >= 2 * w + 2 ? 0xFFFFFFFF : left == 2 * w + 1 ? 0xFFFF : 0;
#pragma unroll
      for (int i = 0; i < kGroups; ++i) words[i][w] &= mask;
    }
  }
};

// sums += a b, over 32 of K, of 8 kGroupsA rows and 8 kGroupsB columns.
template <class T, class A, class B, int kDown, int kAcross>
__device__ __forceinline__ void multiply_add(float (&sums)[kDown][kAcross][4], const A& a,
                                             const B& b WS_AND_PLACE) {
#pragma unroll
  for (int step = 0; step < 4; step += 2) {
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
      const uint32_t of_a[4] = {a.words[2 * i][step], a.words[2 * i + 1][step],
                                a.words[2 * i][step + 1], a.words[2 * i + 1][step + 1]};
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
        const uint32_t of_b[2] = {b.words[j][step], b.words[j][step + 1]};
        ptx::mma_m16n8k16<T>(sums[i][j], of_a, of_b, sums[i][j] WS_PASS_AND_PLACE);
      }
    }
  }
}

}  // namespace ws::gemm
#endif
