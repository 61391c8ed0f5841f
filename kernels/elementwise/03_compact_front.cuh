// Idea: keep the addresses in order. Blocks are small and short, a thread holds two 16-byte loads.
// From pack: the hardware starts blocks in order, so what is in flight is one compact stretch of
// memory, whole DRAM pages at a time, as long as no block lags behind. Larger blocks, more loads a
// thread or a grid that strides over the tensor let blocks drift apart, and cost speed: README.md.
// Traffic: every byte once; 64 KiB in flight an SM where 32-48 are enough.
// Limits: flat layouts. Pointers that lie alike within 16 bytes, but not at its start, cost a few
// elements on their own at both ends; pointers that lie differently take one element an access.
#pragma once

#include "kernels/elementwise/02_vector.cuh"

namespace ws::elementwise {

// Threads of a block, loads of a thread.
template <int kThreadCount, int kLoadCount>
struct Front {
  static constexpr int kThreads = kThreadCount;
  static constexpr int kLoads = kLoadCount;
};

template <class T, class Op, int kWidth, class Config>
struct CompactFront {
  static constexpr int kThreads = Config::kThreads;
  static constexpr int kMinBlocks = 1536 / kThreads;  // as many as any SM since sm_80 holds
  static constexpr int kLoads = Config::kLoads;
  static constexpr int64_t kTile = kThreads * kLoads;  // vectors of a block

  struct Arguments {
    Operands<T, Op::kInputs> operands;
    Op op;
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
    Vec<T, kWidth> x[kLoads][Op::kInputs];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
#pragma unroll
      for (int k = 0; k < Op::kInputs; ++k) {
        if (inside(first + j * kThreads)) {
          x[j][k] = thread::load<kWidth>(a.operands.inputs[k] + at + j * kThreads * kWidth);
        }
      }
    }
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      if (inside(first + j * kThreads)) {
        thread::store(a.operands.output + at + j * kThreads * kWidth, apply(a.op, x[j]));
      }
    }
  }

  // What no vector covers, an element a thread.
  static __device__ __forceinline__ void ends(const Arguments& a) {
    const int64_t covered = a.vectors * kWidth;
    const int64_t i = thread_index();  // head and tail are shorter than a vector each
    if (i >= a.elements - covered) return;
    const int64_t at = i < a.head ? i : i + covered;
    T x[Op::kInputs];
#pragma unroll
    for (int k = 0; k < Op::kInputs; ++k) x[k] = thread::load(a.operands.inputs[k] + at);
    thread::store(a.operands.output + at, apply(a.op, x));
  }
};

template <int kWidth, class Config, class Op, class T, int kInputs>
void launch_front(const Op& op, const Operands<T, kInputs>& operands, int64_t head,
                  int64_t elements, Stream stream) {
  using Kernel = CompactFront<T, Op, kWidth, Config>;
  const int64_t vectors = (elements - head) / kWidth;
  // One block more than full tiles: it takes the rest and the ends.
  const bool has_rest = vectors % Kernel::kTile != 0 || elements != vectors * kWidth;
  launch<Kernel>(
      {.blocks = vectors / Kernel::kTile + (has_rest ? 1 : 0), .threads = Kernel::kThreads}, stream,
      {operands, op, head, vectors, elements});
}

// Configurations for one input and for two.
template <class One, class Two>
void run_front(const Problem& problem, const Context& context) {
  dispatch(problem, [&]<class Op, class T>(const Op& op, T) {
    constexpr int kWidth = 16 / sizeof(T);
    const Operands<T, Op::kInputs> operands(problem);
    const int64_t elements = problem.tensor(Op::kInputs).elements();
    const auto place = [](const T* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16; };
    bool alike = true;
    for (const T* input : operands.inputs) {
      alike = alike && place(input) == place(operands.output);
    }
    if (alike) {
      const auto to_vector = static_cast<int64_t>((16 - place(operands.output)) % 16 / sizeof(T));
      using Config = std::conditional_t<Op::kInputs == 1, One, Two>;
      launch_front<kWidth, Config>(op, operands, std::min(to_vector, elements), elements,
                                   context.stream);
    } else {
      using Config = Front<256, 8 / Op::kInputs>;  // a load is one element: more of them
      launch_front<1, Config>(op, operands, 0, elements, context.stream);
    }
  });
}

}  // namespace ws::elementwise
