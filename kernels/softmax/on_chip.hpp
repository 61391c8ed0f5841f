// OnChip: what a thread reads once and needs twice, in registers and shared memory as far as these
// go.
#pragma once

#include <algorithm>
#include <bit>

#include "warpsmith/ptx/cp_async.hpp"
#include "warpsmith/row/packed.hpp"
#include "warpsmith/shared.hpp"
#include "warpsmith/thread/divide.hpp"

#if WS_DEVICE_CODE
namespace ws::softmax {

inline constexpr int kOnChipLoads = 4;  // of a thread, where one comes after the other

// Places for a vector of each input that blocks of `threads` have in that much shared memory.
inline int places_for(int most, int threads, int inputs, int64_t bytes, int loads = kOnChipLoads) {
  const int64_t room = std::max<int64_t>(bytes, 0) / (int64_t{16} * threads);
  return static_cast<int>(std::min<int64_t>(most, room)) / loads * loads / inputs;
}

// A thread's vectors 0, 1, 2 ... of each of kInputs inputs: the first kHeld are in its registers,
// the next in its places in shared memory, which no other thread looks at, so that nobody waits for
// anybody; what is left is read again, what was read last first, while L2 has it.
//
// Callers say which there are: at(i, k) is where the i-th of input k lies, holds(i) whether there
// is one; no thread of the block has one from `end` on.
template <class T, int kWidth, int kInputs, int kThreads, int kHeld, int kMostPlaces,
          int kLoads = kOnChipLoads>
class OnChip {
 public:
  using Packed = row::Packed<T, kWidth>;
  static constexpr int kTurn = kLoads / kInputs;

  // Of a thread in shared memory, as elements; `places` is a multiple of kTurn.
  __host__ __device__ static constexpr int64_t elements(int places) {
    return int64_t{places} * kInputs * kThreads * kWidth;
  }

  // The e-th of each input, of a vector's inputs side by side.
  template <class Element>
  __device__ __forceinline__ static Element element(const Packed* of, int e) {
    Element element;
#pragma unroll
    for (int k = 0; k < kInputs; ++k) element[k] = of[k][e];
    return element;
  }

  // Asks for all that stays.
  template <class Holds, class At>
  __device__ __forceinline__ OnChip(SharedSpan<T> memory, int places, float padding,
                                    const Holds& holds, const At& at)
      : memory_(memory), places_(places), padding_(padding) {
    if constexpr (kMostPlaces > 0) {
#pragma unroll 1
      for (int t = 0; t < kTurns; ++t) {
        const int first = kHeld + t * kTurn;
        if (first < again()) {
#pragma unroll
          for (int i = first; i < first + kTurn; ++i) {
#pragma unroll
            for (int k = 0; k < kInputs; ++k) {
              if (holds(i)) ptx::cp_async<kBytes>(memory_.pointer(place(i, k)), at(i, k));
            }
          }
        }
        ptx::cp_async_commit_group();
      }
    }
#pragma unroll
    for (int i = 0; i < kHeld; ++i) load(held_ + i * kInputs, i, holds, at);
  }

  // f(i, x) with kGroup or kTurn vectors from i on, each once and in order, the inputs of a vector
  // side by side; those that there are not hold the padding.
  template <int kGroup, class Holds, class At, class F>
  __device__ __forceinline__ void each(int end, const Holds& holds, const At& at, const F& f) {
#pragma unroll
    for (int i = 0; i < kHeld; i += kGroup) {
      if (i < end) f.template operator()<kGroup>(i, held_ + i * kInputs);
    }
    Packed x[kTurn * kInputs];
    if constexpr (kMostPlaces > 0) {
#pragma unroll 1
      for (int t = 0; t < kTurns; ++t) {
        ptx::cp_async_wait_group<kTurns - 1>();  // the oldest has come
        const int i = kHeld + t * kTurn;
        if (i < again() && i < end) {
          take(x, i, holds);
          f.template operator()<kTurn>(i, x);
        }
        ptx::cp_async_commit_group();  // an empty one, so that it is the next one's turn
      }
    }
    for (int i = again(); i < end; i += kTurn) {
#pragma unroll
      for (int v = 0; v < kTurn; ++v) load(x + v * kInputs, i + v, holds, at);
      f.template operator()<kTurn>(i, x);
    }
  }

  // put(i, x) with kTurn or, of those in registers, up to kGroup vectors from i on once more, each
  // of which put() asks holds() for; the last first as far as they are read again.
  template <int kGroup, class Holds, class At, class Put>
  __device__ __forceinline__ void each_again(int end, const Holds& holds, const At& at,
                                             const Put& put) {
    if constexpr (kHeld > 0) row::stay_packed(held_);
    Packed x[kTurn * kInputs];
    for (int i = again() + (end > again() ? round_up(end - again(), kTurn) : 0) - kTurn;
         i >= again(); i -= kTurn) {
#pragma unroll
      for (int v = 0; v < kTurn; ++v) load(x + v * kInputs, i + v, holds, at);
      put.template operator()<kTurn>(i, x);
    }
    if constexpr (kMostPlaces > 0) {
      for (int i = again() - kTurn; i >= kHeld; i -= kTurn) {
        if (i >= end) continue;
        take(x, i, holds);
        put.template operator()<kTurn>(i, x);
      }
    }
    constexpr int kRest = kHeld % kGroup;
#pragma unroll
    for (int i = 0; i < kHeld - kRest; i += kGroup) {
      put.template operator()<kGroup>(i, held_ + i * kInputs);
    }
    if constexpr (kRest > 0) {
      put.template operator()<kRest>(kHeld - kRest, held_ + (kHeld - kRest) * kInputs);
    }
  }

 private:
  static constexpr int kBytes = static_cast<int>(kWidth * sizeof(T));
  static constexpr int kTurns = (kMostPlaces + kTurn - 1) / kTurn;

  // The first that is read again.
  __device__ __forceinline__ int again() const { return kHeld + places_; }
  __device__ __forceinline__ int64_t place(int i, int k) const {
    return static_cast<int64_t>(((i - kHeld) * kInputs + k) * kThreads + thread_index()) * kWidth;
  }
  // From memory, and a turn from its places.
  template <class Holds, class At>
  __device__ __forceinline__ void load(Packed* x, int i, const Holds& holds, const At& at) const {
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      x[k] = Packed::filled(padding_);
      if (holds(i)) x[k] = Packed::load(at(i, k));
    }
  }
  template <class Holds>
  __device__ __forceinline__ void take(Packed* x, int i, const Holds& holds) const {
#pragma unroll
    for (int v = 0; v < kTurn; ++v) {
#pragma unroll
      for (int k = 0; k < kInputs; ++k) {
        x[v * kInputs + k] = Packed::filled(padding_);
        if (holds(i + v)) {
          x[v * kInputs + k] =
              std::bit_cast<Packed>(memory_.template load<kWidth>(place(i + v, k)));
        }
      }
    }
  }

  SharedSpan<T> memory_;
  int places_;
  float padding_;
  Packed held_[std::max(kHeld * kInputs, 1)];
};

}  // namespace ws::softmax
#endif
