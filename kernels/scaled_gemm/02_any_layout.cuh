// Idea: matrices and scales are pointers and strides; a stride of 0 is one scale for all. Scales of
//   blocks come after each 128 of K: the sum of 128 products is multiplied and added to the others.
// From naive: every call.
// Traffic: naive's where K is contiguous; a sector of 32 bytes for an element where it is not.
// Limits: none.
#pragma once

#include "kernels/scaled_gemm/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::scaled_gemm {

// A, B: int8_t, or a float of 8 bits each. T: of C.
template <class A, class B, class T>
struct AnyLayoutKernel {
  static constexpr int kThreads = 256;
  static constexpr bool kScaled = kIsFloat<T>;
  using Arguments = Call;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Call& g) const {
    const int64_t index = block_index() * kThreads + thread_index();
    if (index >= g.m * g.n) return;
    const int64_t row = index / g.n;
    const int64_t column = index % g.n;
    const A* const a = static_cast<const A*>(g.a.data) + row * g.a.row;
    const B* const b = static_cast<const B*>(g.b.data) + column * g.b.row;
    T* const c = static_cast<T*>(g.c.data) + row * g.c.row + column * g.c.column;
    if constexpr (kScaled) {
      const float* const scale_a = g.scale_a + row * g.a_row;
      const float* const scale_b = g.scale_b + column / g.b_columns * g.b_column;
      float sum = 0;
      for (int64_t first = 0; first < g.k; first += kBlock) {
        const int64_t block = first / kBlock;
        const int64_t last = first + kBlock < g.k ? first + kBlock : g.k;
        float part = 0;
        for (int64_t i = first; i < last; ++i) {
          part += to_float(thread::load(a + i * g.a.column)) *
                  to_float(thread::load(b + i * g.b.column));
        }
        sum += part * (thread::load(scale_a + block * g.a_block) *
                       thread::load(scale_b + block * g.b_block));
      }
      if (g.bias != nullptr) {
        sum += to_float(thread::load(static_cast<const T*>(g.bias) + column * g.bias_step));
      }
      thread::store(c, from_float<T>(sum));
    } else {
      uint32_t sum = 0;
      for (int64_t i = 0; i < g.k; ++i) {
        sum += static_cast<uint32_t>(thread::load(a + i * g.a.column) *
                                     thread::load(b + i * g.b.column));
      }
      thread::store(c, static_cast<T>(sum));
    }
  }
};

struct AnyLayout {
  static void run(const Call& call, const Context& context) {
    const auto start = [&]<class Kernel>() {
      launch<Kernel>(
          {.blocks = divide_up(call.m * call.n, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream, call);
    };
    if (call.dtype == DType::kI8) {
      return start.template operator()<AnyLayoutKernel<int8_t, int8_t, int32_t>>();
    }
    with_type<kFp8>(call.dtype, [&]<class A>() {
      with_type<kFp8>(call.b_dtype, [&]<class B>() {
        with_type<kFloats>(call.c_dtype, [&]<class T>() {
          start.template operator()<AnyLayoutKernel<A, B, T>>();
        });
      });
    });
  }
};

inline constexpr Rung kAnyLayout = rung_of<AnyLayout, IntMm, ScaledMm>({
    .name = "any_layout",
    .from = "naive",
    .idea = "strides of matrices and scales; a block's sum of 128 products is scaled, then added",
});

}  // namespace ws::scaled_gemm
