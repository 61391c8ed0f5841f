// Idea: a thread computes one element. Of grouped_gemm it looks for the group of its row, the first
//   that ends behind it; of grouped_gemm_weight its group's offsets are the bounds of its loop.
// The first kernel everyone writes; slow on purpose. No offset ever goes to the host.
// Traffic: 2 K elements for 2 K flops, from the caches; and up to all of `offs` for each element.
// Limits: dense row-major tensors of one dtype; `any_layout` takes all others.
#pragma once

#include "kernels/grouped_gemm/groups.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/memory.hpp"

namespace ws::grouped_gemm {

template <class T>
struct NaiveRowsKernel {
  static constexpr int kThreads = 256;

  struct Arguments {
    const T* a;     // [T, K]
    const T* b;     // [G, K, N]
    Groups groups;  // of T
    T* out;         // [T, N]
    int64_t t, n, k;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [a, b, groups, out, t, n, k] = arguments;
    const int64_t index = block_index() * kThreads + thread_index();
    groups.report(index, grid_blocks() * kThreads);
    if (index >= t * n) return;
    const int64_t row = index / n;
    const int64_t column = index % n;
    const int64_t group = groups.of_row(row);
    float sum = 0;
    if (group < groups.count) {
      for (int64_t i = 0; i < k; ++i) {
        sum += to_float(thread::load(a + row * k + i)) *
               to_float(thread::load(b + (group * k + i) * n + column));
      }
    }
    thread::store(out + index, from_float<T>(sum));
  }
};

template <class T>
struct NaiveDepthKernel {
  static constexpr int kThreads = 256;

  struct Arguments {
    const T* a;     // [M, T]
    const T* b;     // [T, N]
    Groups groups;  // of T
    T* out;         // [G, M, N]
    int64_t m, n, t;
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& arguments) const {
    const auto& [a, b, groups, out, m, n, t] = arguments;
    const int64_t index = block_index() * kThreads + thread_index();
    groups.report(index, grid_blocks() * kThreads);
    if (index >= groups.count * m * n) return;
    const int64_t row = index / n % m;
    const int64_t column = index % n;
    const auto [first, end] = groups.range_of(index / (m * n));
    float sum = 0;
    for (int64_t i = first; i < end; ++i) {
      sum += to_float(thread::load(a + row * t + i)) * to_float(thread::load(b + i * n + column));
    }
    thread::store(out + index, from_float<T>(sum));
  }
};

struct Naive {
  static bool supports(const RowsCall& call, Why& why) {
    return is_of_one_dtype(call, why) && is_dense("a", call.a, call.m, call.k, 0, why) &&
           is_dense("b", call.b, call.k, call.n, call.groups, why) &&
           is_dense("out", call.c, call.m, call.n, 0, why) && offsets_follow(call, why);
  }
  static bool supports(const DepthCall& call, Why& why) {
    return is_of_one_dtype(call, why) && is_dense("a", call.a, call.m, call.k, 0, why) &&
           is_dense("b", call.b, call.k, call.n, 0, why) &&
           is_dense("out", call.c, call.m, call.n, call.groups, why) && offsets_follow(call, why);
  }

  static void run(const RowsCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = NaiveRowsKernel<T>;
      launch<Kernel>(
          {.blocks = divide_up(call.m * call.n, Kernel::kThreads), .threads = Kernel::kThreads},
          context.stream,
          {call.a.as<const T>(), call.b.as<const T>(), Groups(call, call.m, "grouped_gemm/naive"),
           call.c.as<T>(), call.m, call.n, call.k});
    });
  }
  static void run(const DepthCall& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = NaiveDepthKernel<T>;
      launch<Kernel>({.blocks = divide_up(call.groups * call.m * call.n, Kernel::kThreads),
                      .threads = Kernel::kThreads},
                     context.stream,
                     {call.a.as<const T>(), call.b.as<const T>(),
                      Groups(call, call.k, "grouped_gemm_weight/naive"), call.c.as<T>(), call.m,
                      call.n, call.k});
    });
  }

 private:
  static bool is_dense(const char* name, const Matrix& matrix, int64_t rows, int64_t columns,
                       int64_t matrices, Why& why) {
    return why.unless((columns <= 1 || matrix.column == 1) &&
                          (rows <= 1 || matrix.row == columns) &&
                          (matrices <= 1 || matrix.batch == rows * columns),
                      "needs a dense row-major ", name);
  }
  static bool offsets_follow(const Call& call, Why& why) {
    return why.unless(call.end_stride == 1, "needs dense offs");
  }
};

inline constexpr Rung kNaive = rung_of<Naive, GroupedGemm, GroupedGemmWeight>({
    .name = "naive",
    .idea = "a thread an element; it looks for the group of its row in the offsets",
});

}  // namespace ws::grouped_gemm
