// Idea: 16 bytes an access: 4 elements of f32, 8 of 16 bits, whose column costs one division.
// From naive: a warp asks for 512 bytes at once, four or eight times as many in flight; and the
// exact gelu is a polynomial and one exponential (elementwise/functors.hpp), since in 16 bits an
// element has 28 instructions.
// Traffic: x once, y once; the bias comes from L1.
// Limits: dense tensors that start at a multiple of 16 bytes, columns of whole vectors.
#pragma once

#include "kernels/fused/01_naive.cuh"
#include "kernels/fused/functors.hpp"

namespace ws::fused {

template <class T>
struct VectorKernel {
  static constexpr int kThreads = 256;
  static constexpr int kWidth = 16 / sizeof(T);
  using Arguments = typename NaiveKernel<T>::Arguments;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t i = (block_index() * kThreads + thread_index()) * kWidth;
    if (i >= a.elements) return;
    const Vec<T, kWidth> x[] = {thread::load<kWidth>(a.x + i),
                                thread::load<kWidth>(a.bias + i % a.columns)};
    thread::store(a.y + i, elementwise::apply(WithBias<GeluOfErf>{}, x));
  }
};

struct Vector {
  static bool supports(const BiasGelu::Call& call, Why& why) {
    if (!Naive::supports(call, why)) return false;
    const auto width = static_cast<int64_t>(16 / size_of(call.dtype));
    for (size_t k = 0; k < 3; ++k) {
      if (!why.unless(reinterpret_cast<uintptr_t>(call.data[k]) % 16 == 0,
                      "needs pointers aligned to 16 bytes")) {
        return false;
      }
    }
    return why.unless(Naive::columns(call) % width == 0, "takes rows of whole vectors of ", width,
                      " elements, got ", call.layout);
  }
  static void run(const BiasGelu::Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = VectorKernel<T>;
      constexpr int64_t kOfBlock = int64_t{Kernel::kThreads} * Kernel::kWidth;
      launch<Kernel>(
          {.blocks = divide_up(call.layout.elements, kOfBlock), .threads = Kernel::kThreads},
          context.stream, Naive::arguments<T>(call));
    });
  }
};

inline constexpr Rung kVector = rung_of<Vector, BiasGelu>({
    .name = "vector",
    .from = "naive",
    .idea = "16 bytes an access, a division for all its columns, a gelu of few instructions",
});

}  // namespace ws::fused
