// Idea: a thread computes one element of C, walking along a row of A and a column of B.
// First rung: it states the problem, takes any strides and dtype, and is slow on purpose.
// Traffic: every thread reads 2K elements for 2K flops. Neighbouring threads share their row of A
//   and, for a row-major B, read neighbouring columns together, so the caches save most of it; the
//   load instructions stay, two for each fused multiply-add.
#pragma once

#include "kernels/gemm/problem.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::gemm {

template <class T>
struct Naive {
  static constexpr int kThreads = 256;
  struct SharedStorage {};
  struct Arguments {
    Call call;
  };

  __device__ void operator()(SharedStorage&, const Arguments& arguments) const {
    const Call& call = arguments.call;
    const int64_t index = block_index() * kThreads + thread_index();
    if (index >= call.m * call.n) return;
    const int64_t row = index / call.n;
    const int64_t column = index % call.n;
    const T* a = static_cast<const T*>(call.a.data) + row * call.a.row;
    const T* b = static_cast<const T*>(call.b.data) + column * call.b.column;
    float sum = 0;
    for (int64_t k = 0; k < call.k; ++k) {
      sum += to_float(thread::load(a + k * call.a.column)) *
             to_float(thread::load(b + k * call.b.row));
    }
    T* c = static_cast<T*>(call.c.data) + row * call.c.row + column * call.c.column;
    thread::store(c, from_float<T>(sum));
  }

  static void run(const Call& call, Stream stream) {
    const int64_t blocks = (call.m * call.n + kThreads - 1) / kThreads;
    launch<Naive>({.blocks = blocks, .threads = kThreads}, stream, {call});
  }
};

inline void run_naive(const Problem& problem, const Context& context) {
  const Call call = call_of(problem);
  switch (call.dtype) {
    case DType::kF16: return Naive<half>::run(call, context.stream);
    case DType::kBf16: return Naive<bf16>::run(call, context.stream);
    default: return Naive<float>::run(call, context.stream);
  }
}

}  // namespace ws::gemm
