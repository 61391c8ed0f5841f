// Idea: a thread computes one element of C, walking along a row of A and a column of B; the scales
//   come last, for they are the same for all products of a sum.
// The formula as it stands. Integers add up exactly, floats in f32.
// Traffic: every thread reads 2K elements of a byte for 2K operations, one by one.
// Limits: A row by row and B column by column, both dense (what torch asks for); C dense; bf16, no
//   bias, no scales that differ along K: `any_layout` takes all others.
#pragma once

#include "kernels/scaled_gemm/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::scaled_gemm {

struct IntegerNaiveKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    const int8_t* a;  // [M, K]
    const int8_t* b;  // [N, K]
    int32_t* c;       // [M, N]
    int64_t m, n, k;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [a, b, c, m, n, k] = arguments;
    const int64_t index = block_index() * kThreads + thread_index();
    if (index >= m * n) return;
    const int64_t row = index / n;
    const int64_t column = index % n;
    uint32_t sum = 0;  // unsigned, which may overflow
    for (int64_t i = 0; i < k; ++i) {
      sum +=
          static_cast<uint32_t>(thread::load(a + row * k + i) * thread::load(b + column * k + i));
    }
    thread::store(c + index, static_cast<int32_t>(sum));
  }
};

template <class A, class B>
struct ScaledNaiveKernel {
  static constexpr int kThreads = 256;
  struct Arguments {
    const A* a;            // [M, K]
    const B* b;            // [N, K]
    const float* scale_a;  // of row m: [m * a_row]
    const float* scale_b;
    bf16* c;  // [M, N]
    int64_t m, n, k;
    int64_t a_row, b_column;  // 0: one for all
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [a, b, scale_a, scale_b, c, m, n, k, a_row, b_column] = arguments;
    const int64_t index = block_index() * kThreads + thread_index();
    if (index >= m * n) return;
    const int64_t row = index / n;
    const int64_t column = index % n;
    float sum = 0;
    for (int64_t i = 0; i < k; ++i) {
      sum += to_float(thread::load(a + row * k + i)) * to_float(thread::load(b + column * k + i));
    }
    sum *= thread::load(scale_a + row * a_row) * thread::load(scale_b + column * b_column);
    thread::store(c + index, from_float<bf16>(sum));
  }
};

struct Naive {
  static bool supports(const Call& call, Why& why) {
    const auto is_dense = [](const Matrix& matrix, int64_t rows, int64_t columns) {
      return (columns <= 1 || matrix.column == 1) && (rows <= 1 || matrix.row == columns);
    };
    return why.unless(is_dense(call.a, call.m, call.k), "needs a dense a, row by row") &&
           why.unless(is_dense(call.b, call.n, call.k), "needs a dense b, column by column") &&
           why.unless(is_dense(call.c, call.m, call.n), "needs a dense c") &&
           why.unless(call.c_dtype == DType::kI32 || call.c_dtype == DType::kBf16,
                      "makes bf16, not ", to_string(call.c_dtype)) &&
           why.unless(call.bias == nullptr, "adds no bias") &&
           why.unless(!call.by_blocks, "takes no scales of blocks");
  }

  static void run(const Call& call, const Context& context) {
    const auto start = [&]<class Kernel>(const typename Kernel::Arguments& arguments) {
      launch<Kernel>(
          {.blocks = divide_up(call.m * call.n, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream, arguments);
    };
    if (call.dtype == DType::kI8) {
      return start.template operator()<IntegerNaiveKernel>(
          {call.a.as<const int8_t>(), call.b.as<const int8_t>(), call.c.as<int32_t>(), call.m,
           call.n, call.k});
    }
    with_type<kFp8>(call.dtype, [&]<class A>() {
      with_type<kFp8>(call.b_dtype, [&]<class B>() {
        start.template operator()<ScaledNaiveKernel<A, B>>(
            {call.a.as<const A>(), call.b.as<const B>(), call.scale_a, call.scale_b,
             call.c.as<bf16>(), call.m, call.n, call.k, call.a_row, call.b_column});
      });
    });
  }
};

inline constexpr Rung kNaive = rung_of<Naive, IntMm, ScaledMm>({
    .name = "naive",
    .idea = "a thread computes one element of C, and scales it",
});

}  // namespace ws::scaled_gemm
