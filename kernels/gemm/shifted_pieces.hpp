// Operands whose rows start anywhere, on their way from memory to tiles that ldmatrix reads: each
// thread loads the two pieces of 16 bytes that its elements lie in, and shifts them together.
#pragma once

#include <bit>

#include "kernels/gemm/matrix_runs.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/thread/realign.hpp"
#include "warpsmith/tile/staged_copy.hpp"

#if WS_DEVICE_CODE
namespace ws::gemm {

// A thread's share of an operand's tiles, kOuter of the outer dimension by kK, slice after slice.
// From run to run of a thread, and from slice to slice, it is a multiple of 16 bytes: all of a
// thread's pieces are shifted alike.
template <class T, bool kRunsAlongK, int kOuter, int kK, int kThreads>
struct ShiftedPieces {
  static constexpr int kRuns = kRunsAlongK ? kOuter : kK;
  static constexpr int kLength = kRunsAlongK ? kK : kOuter;
  static constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
  static constexpr int kPerRun = kLength / kWidth;
  static constexpr int kStep = kThreads / kPerRun;  // runs that the block's threads have at a time
  static constexpr int kCount = kRuns / kStep;
  static_assert(sizeof(T) == 2 && kThreads % kPerRun == 0 && kRuns % kStep == 0);
  static_assert(kStep % kWidth == 0 && kK % kWidth == 0, "steps of whole pieces");
  using Tile = tile::SwizzledTile<kRuns, kLength>;
  using Words = Vec<uint32_t, 4>;

  __device__ __forceinline__ ShiftedPieces(const Runs<T>& of, int outer, int k)
      : matrix_(of), first_run_(kRunsAlongK ? outer : k), first_at_(kRunsAlongK ? k : outer) {
    const T* const from = of.data + (first_run_ + run()) * of.leading + first_at_ + element();
    shift_ = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from) % 16);
    const auto before = static_cast<int>(shift_ / sizeof(T));
    next_ = from - before;
  }

  // The next slice's. No load stands in a branch of some lanes, so that all are in flight together,
  // but those of pieces that lie across an end of the matrix.
  __device__ __forceinline__ void load(WS_PLACE) {
    left_ = matrix_.length - first_at_ - element();
    if (first_run_ + kRuns <= matrix_.count && first_at_ + kLength + kWidth <= matrix_.length &&
        (first_at_ >= kWidth || first_run_ >= matrix_.heads)) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        pieces_[i][0] = words(next_ + i * step() WS_PASS_AND_PLACE);
        pieces_[i][1] = words(next_ + i * step() + kWidth WS_PASS_AND_PLACE);
      }
    } else {
      load_edge(WS_PASS_PLACE);
    }
    next_ += kRunsAlongK ? int64_t{kK} : kK * matrix_.leading;
    (kRunsAlongK ? first_at_ : first_run_) += kK;
  }

  __device__ __forceinline__ void store(SharedSpan<T> tile WS_AND_PLACE) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      Words moved = thread::realign<sizeof(T)>(pieces_[i][0], pieces_[i][1], shift_);
      // What is behind the last of K may be anything, and a product with zero is not always zero.
      if (kRunsAlongK && left_ < kWidth) {
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          moved[w] = left_ >= 2 * w + 2 ? moved[w] : left_ == 2 * w + 1 ? moved[w] & 0xFFFF : 0;
        }
      }
      tile.template store<kWidth>(Tile::offset(run() + i * kStep, element()),
                                  std::bit_cast<Vec<T, kWidth>>(moved) WS_PASS_AND_PLACE);
    }
  }

 private:
  __device__ __forceinline__ static int element() { return thread_index() % kPerRun * kWidth; }
  __device__ __forceinline__ static int run() { return thread_index() / kPerRun; }
  __device__ __forceinline__ int64_t step() const { return kStep * matrix_.leading; }
  __device__ __forceinline__ static Words words(const T* from WS_AND_PLACE) {
    return std::bit_cast<Words>(thread::load<kWidth>(from WS_PASS_AND_PLACE));
  }

  // A slice that hangs over the matrix's edge, or has its first or last elements.
  __device__ __forceinline__ void load_edge(WS_PLACE) {
    const int at = first_at_ + element();
    const int before = static_cast<int>(shift_ / sizeof(T));
    const bool second = shift_ != 0 && left_ > kWidth - before;
    bool across = false;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int r = first_run_ + run() + i * kStep;
      const bool wants = r < matrix_.count && left_ > 0;
      const bool inner = r < matrix_.tails;
      const bool has = (at >= before || r >= matrix_.heads) && (left_ >= kWidth - before || inner);
      const bool has_second = left_ >= 2 * kWidth - before || inner;
      pieces_[i][0] = pieces_[i][1] = {};
      if (wants && has) pieces_[i][0] = words(next_ + i * step() WS_PASS_AND_PLACE);
      if (wants && second && has_second) {
        pieces_[i][1] = words(next_ + i * step() + kWidth WS_PASS_AND_PLACE);
      }
      across = across || (wants && (!has || (second && !has_second)));
    }
    if (!across) return;
    // Element by element what the matrix has of them.
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int r = first_run_ + run() + i * kStep;
      if (r >= matrix_.count || (r >= matrix_.heads && r < matrix_.tails)) continue;
#pragma unroll
      for (int w = 0; w < 8; ++w) {
        const auto bits = [&](int e) -> uint32_t {
          if (at - before + e < 0 || at - before + e >= matrix_.length) return 0;
          return std::bit_cast<uint16_t>(thread::load(next_ + i * step() + e WS_PASS_AND_PLACE));
        };
        pieces_[i][w / 4][w % 4] = bits(2 * w) | bits(2 * w + 1) << 16;
      }
    }
  }

  Runs<T> matrix_;
  int first_run_, first_at_;  // of the next slice
  const T* next_;             // this thread's first piece of it
  uint32_t shift_;            // bytes
  int left_;                  // elements of a run from this thread's first on, of the slice loaded
  Words pieces_[kCount][2];
};

}  // namespace ws::gemm
#endif
