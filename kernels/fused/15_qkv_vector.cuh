// Idea: 16 bytes of a head a thread.
// From qkv_naive: four or eight times fewer accesses, and divisions prepared by the host.
// Traffic: each element once; the bias from the L1.
// Limits: heads of whole vectors, elements side by side, everything aligned to 16 bytes.
#pragma once

#include "kernels/fused/14_qkv_naive.cuh"
#include "warpsmith/row/cut.hpp"
#include "warpsmith/row/packed.hpp"

namespace ws::fused {

template <class T>
struct QkvVectorKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWidth = row::kWidest<T>;
  using Packed = row::Packed<T, kWidth>;
  struct Arguments {
    QkvCall call;
    int64_t threads;
    thread::Divider vectors;  // of a head
    thread::Divider heads;
    thread::Divider rows;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const QkvCall& c = a.call;
    const int64_t i = block_index() * kThreads + thread_index();
    if (i >= a.threads) return;
    auto rest = static_cast<uint32_t>(i);
    const auto take = [&](const thread::Divider& divider) {
      const uint32_t whole = divider.quotient(rest);
      const int64_t found = rest - whole * divider.divisor();
      rest = whole;
      return found;
    };
    const int64_t d = take(a.vectors) * kWidth;
    const int64_t h = take(a.heads);
    const int64_t part = rest % 3;
    rest /= 3;
    const int64_t s = take(a.rows);
    const int64_t b = rest;
    const Packed x = Packed::load(static_cast<const T*>(c.qkv) + b * c.strides[0] +
                                  s * c.strides[1] + part * c.strides[2] + h * c.strides[3] + d);
    const Packed bias = Packed::load(static_cast<const T*>(c.bias) + part * c.bias_strides[0] +
                                     h * c.bias_strides[1] + d);
    Vec<float, kWidth> sum;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) sum[e] = x[e] + bias[e];
    store(c, part, b, h, s, d, thread::convert<T>(sum));
  }

 private:
  // Arrays of arguments are not indexed by what a thread computes: they would be copied to memory.
  static __device__ __forceinline__ void store(const QkvCall& c, int64_t part, int64_t b, int64_t h,
                                               int64_t s, int64_t d, const Vec<T, kWidth>& value) {
#pragma unroll
    for (int p = 0; p < 3; ++p) {
      if (part != p) continue;
      const int64_t* to = c.part_strides[p];
      thread::store(static_cast<T*>(c.parts[p]) + b * to[0] + h * to[1] + s * to[2] + d, value);
    }
  }
};

struct QkvVector {
  static bool supports(const QkvCall& call, Why& why) {
    const auto bytes = static_cast<int64_t>(size_of(call.dtype));
    const auto fits = [&](const void* data, const int64_t* strides, int rank) {
      bool all = reinterpret_cast<uintptr_t>(data) % 16 == 0 && strides[rank - 1] == 1;
      for (int d = 0; d < rank - 1; ++d) all = all && strides[d] * bytes % 16 == 0;
      return all;
    };
    bool all = fits(call.qkv, call.strides, 5) && fits(call.bias, call.bias_strides, 3);
    for (int p = 0; p < 3; ++p) all = all && fits(call.parts[p], call.part_strides[p], 4);
    return why.unless(call.depth * bytes % 16 == 0, "takes heads of whole 16 bytes, not ",
                      call.depth, " elements") &&
           why.unless(all, "takes elements side by side, and heads that start at 16 bytes") &&
           why.unless(threads_of(call) < (int64_t{1} << 31), "takes up to 2^31 accesses, not ",
                      threads_of(call));
  }
  static void run(const QkvCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = QkvVectorKernel<T>;
      const int64_t threads = threads_of(call);
      launch<Kernel>({.blocks = divide_up(threads, Kernel::kThreads), .threads = Kernel::kThreads},
                     context.stream,
                     {call, threads, thread::Divider(call.depth / Kernel::kWidth),
                      thread::Divider(call.heads), thread::Divider(call.rows)});
    });
  }

 private:
  static int64_t threads_of(const QkvCall& call) {
    return call.batch * call.rows * 3 * call.heads * call.depth *
           static_cast<int64_t>(size_of(call.dtype)) / 16;
  }
};

inline constexpr Seed kQkvVectorSeeds[] = {{.name = "qkv_bias_transpose"}};
inline constexpr Rung kQkvVector = rung_of<QkvVector, QkvBiasTranspose>({
    .name = "qkv_vector",
    .from = "qkv_naive",
    .idea = "16 bytes of a head a thread, divisions prepared by the host",
    .seeds = kQkvVectorSeeds,
});

}  // namespace ws::fused
