// Idea: keep the addresses in order. Blocks are small and short, a thread holds two 16-byte loads.
// From pack: the hardware starts blocks in order, so what is in flight is one compact stretch of
// memory, whole DRAM pages at a time, as long as no block lags behind. Larger blocks, more loads a
// thread or a grid that strides over the tensor let blocks drift apart, and cost speed: README.md.
// Traffic: every byte once; 64 KiB in flight an SM where 32-48 are enough.
// Limits: flat layouts. Pointers that lie alike within 16 bytes, but not at its start, cost a few
// elements on their own at both ends; pointers that lie differently take one element an access.
#pragma once

#include "kernels/elementwise/dispatch.hpp"
#include "kernels/elementwise/front.hpp"
#include "warpsmith/launch.hpp"

namespace ws::elementwise {

template <class T, class Functor, int kWidth, class Policy>
struct CompactFrontKernel {
  static constexpr int kThreads = Policy::kThreads;
  static constexpr int kMinBlocks = 1536 / kThreads;  // as many as any SM since sm_80 holds
  static constexpr int kLoads = Policy::kLoads;
  static constexpr int kVector = kWidth;
  static constexpr int64_t kTile = kThreads * kLoads;  // vectors of a block

  struct Arguments {
    Pointers<T, Functor::kInputs> at;
    Functor f;
    int64_t head;  // elements before the first vector
    int64_t vectors;
    int64_t elements;  // head, vectors * kWidth, and a tail shorter than a vector
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage&, const Arguments& a) const {
    const int64_t tile = block_index() * kTile;
    if (tile + kTile <= a.vectors) {
      walk(a, tile, [](int64_t) { return true; });
      return;
    }
    walk(a, tile, [&](int64_t vector) { return vector < a.vectors; });
    if (kWidth > 1 && block_index() == grid_blocks() - 1) ends(a);
  }

 private:
  // The tile's vectors where `inside`; neighbouring threads take neighbouring vectors.
  template <class Inside>
  static __device__ __forceinline__ void walk(const Arguments& a, int64_t tile,
                                              const Inside& inside) {
    const int64_t first = tile + thread_index();
    const int64_t at = a.head + first * kWidth;
    Vec<T, kWidth> x[kLoads][Functor::kInputs];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
#pragma unroll
      for (int k = 0; k < Functor::kInputs; ++k) {
        if (inside(first + j * kThreads)) {
          x[j][k] = thread::load<kWidth>(a.at.inputs[k] + at + j * kThreads * kWidth);
        }
      }
    }
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      if (inside(first + j * kThreads)) {
        thread::store(a.at.outputs[0] + at + j * kThreads * kWidth, apply(a.f, x[j]));
      }
    }
  }

  // What no vector covers, an element a thread.
  static __device__ __forceinline__ void ends(const Arguments& a) {
    const int64_t covered = a.vectors * kWidth;
    const int64_t i = thread_index();  // head and tail are shorter than a vector each
    if (i >= a.elements - covered) return;
    const int64_t at = i < a.head ? i : i + covered;
    T x[Functor::kInputs];
#pragma unroll
    for (int k = 0; k < Functor::kInputs; ++k) x[k] = thread::load(a.at.inputs[k] + at);
    thread::store(a.at.outputs[0] + at, apply(a.f, x));
  }
};

template <int kInputs>
using Unaligned = Front<256, 8 / kInputs>;  // an access is one element: more of them

template <class One, class Two>
struct CompactFront {
  static bool supports(const Operands& call, Why& why) { return needs_flat(call, why); }

  template <class Call>
  static void run(const Call& call, const Context& context) {
    dispatch(call, [&]<class T, class Functor>(const Functor& f) {
      constexpr int kInputs = Functor::kInputs;
      const Pointers<T, kInputs> at(call);
      const auto place = [](const T* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16; };
      bool alike = true;
      for (const T* input : at.inputs) alike = alike && place(input) == place(at.outputs[0]);
      if (alike) {
        constexpr int kWidth = 16 / sizeof(T);
        const auto to_vector = static_cast<int64_t>((16 - place(at.outputs[0])) % 16 / sizeof(T));
        launch_front<
            CompactFrontKernel<T, Functor, kWidth, std::conditional_t<kInputs == 1, One, Two>>>(
            at, f, std::min(to_vector, call.layout.elements), call.layout.elements, context.stream);
      } else {
        launch_front<CompactFrontKernel<T, Functor, 1, Unaligned<kInputs>>>(
            at, f, 0, call.layout.elements, context.stream);
      }
    });
  }

 private:
  template <class Kernel, class Pointers, class Functor>
  static void launch_front(const Pointers& at, const Functor& f, int64_t head, int64_t elements,
                           Stream stream) {
    const int64_t vectors = (elements - head) / Kernel::kVector;
    // One block more than full tiles: it takes the rest and the ends.
    const bool has_rest = vectors % Kernel::kTile != 0 || elements != vectors * Kernel::kVector;
    launch<Kernel>(
        {.blocks = vectors / Kernel::kTile + (has_rest ? 1 : 0), .threads = Kernel::kThreads},
        stream, {at, f, head, vectors, elements});
  }
};

inline constexpr Rung kCompactFront = Operations::rung<CompactFront<OneInput, TwoInputs>>({
    .name = "compact_front",
    .from = "pack",
    .idea = "small one-shot blocks, so that addresses reach the memory in order",
});

}  // namespace ws::elementwise
