// Idea: a thread an element of the projection: its bias is added, and it goes to its head.
// Traffic: each element once, 16 or 32 bits an access, side by side within a head; four divisions
//   of 64 bits tell where a thread is.
// Limits: none.
#pragma once

#include "kernels/fused/qkv.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::fused {

template <class T>
struct QkvNaiveKernel {
  static constexpr int kThreads = 256;
  using Arguments = QkvCall;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    int64_t rest = block_index() * kThreads + thread_index();
    if (rest >= a.batch * a.rows * 3 * a.heads * a.depth) return;
    const auto take = [&](int64_t extent) {
      const int64_t found = rest % extent;
      rest /= extent;
      return found;
    };
    const int64_t d = take(a.depth);
    const int64_t h = take(a.heads);
    const int64_t part = take(3);
    const int64_t s = take(a.rows);
    const int64_t b = rest;
    const T x = thread::load(static_cast<const T*>(a.qkv) + b * a.strides[0] + s * a.strides[1] +
                             part * a.strides[2] + h * a.strides[3] + d * a.strides[4]);
    const T bias = thread::load(static_cast<const T*>(a.bias) + part * a.bias_strides[0] +
                                h * a.bias_strides[1] + d * a.bias_strides[2]);
    const int64_t* to = a.part_strides[part];
    thread::store(static_cast<T*>(a.parts[part]) + b * to[0] + h * to[1] + s * to[2] + d * to[3],
                  from_float<T>(to_float(x) + to_float(bias)));
  }
};

struct QkvNaive {
  static void run(const QkvCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = QkvNaiveKernel<T>;
      const int64_t elements = call.batch * call.rows * 3 * call.heads * call.depth;
      launch<Kernel>({.blocks = divide_up(elements, Kernel::kThreads), .threads = Kernel::kThreads},
                     context.stream, call);
    });
  }
};

inline constexpr Rung kQkvNaive = rung_of<QkvNaive, QkvBiasTranspose>({
    .name = "qkv_naive",
    .idea = "a thread an element of the projection, which adds its bias and goes to its head",
});

}  // namespace ws::fused
