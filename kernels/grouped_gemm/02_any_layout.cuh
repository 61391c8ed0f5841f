// Idea: a matrix is a pointer and two strides, the matrix of a group one stride more. Weights that
//   lie as [G, N, K] are then a view, and so are the transposes that a gradient brings.
// From naive: the strides are arguments.
// Traffic: naive's where neighbouring threads meet neighbouring elements of B; up to a sector of 32
//   bytes an element where they do not.
// Limits: none.
#pragma once

#include "kernels/gemm/02_any_layout.cuh"
#include "kernels/grouped_gemm/groups.hpp"

namespace ws::grouped_gemm {

template <class T, class Out, bool kDepth>
struct AnyLayoutKernel {
  static constexpr int kThreads = 256;

  struct Arguments {
    gemm::View<const T> a;
    gemm::View<const T> b;
    gemm::View<Out> c;
    int64_t b_group, c_group;  // strides from a group's matrix to the next's
    Groups groups;
    int64_t m, n, k;
    int64_t elements;  // of the output
  };
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& g) const {
    const int64_t index = block_index() * kThreads + thread_index();
    g.groups.report(index, grid_blocks() * kThreads);
    if (index >= g.elements) return;
    const int64_t column = index % g.n;
    const int64_t row = index / g.n % g.m;
    const int64_t group = kDepth ? index / g.n / g.m : g.groups.of_row(row);
    Range k{0, group < g.groups.count ? g.k : 0};
    if constexpr (kDepth) k = g.groups.range_of(group);
    float sum = 0;
    for (int64_t i = k.first; i < k.end; ++i) {
      sum += to_float(thread::load(g.a.at(row, i))) *
             to_float(thread::load(g.b.at(i, column) + group * g.b_group));
    }
    thread::store(g.c.at(row, column) + group * g.c_group, from_float<Out>(sum));
  }

  static void run(const Call& call, int64_t elements, const Groups& groups, Stream stream) {
    launch<AnyLayoutKernel>({.blocks = divide_up(elements, kThreads), .threads = kThreads}, stream,
                            {call.a, call.b, call.c, kDepth ? 0 : call.b.batch,
                             kDepth ? call.c.batch : 0, groups, call.m, call.n, call.k, elements});
  }
};

struct AnyLayout {
  static void run(const RowsCall& call, const Context& context) {
    const Groups groups(call, call.m, "grouped_gemm/any_layout");
    with_dtypes<kFloats>(call, [&]<class T, class Out>() {
      AnyLayoutKernel<T, Out, false>::run(call, call.m * call.n, groups, context.stream);
    });
  }
  static void run(const DepthCall& call, const Context& context) {
    const Groups groups(call, call.k, "grouped_gemm_weight/any_layout");
    with_dtypes<kFloats>(call, [&]<class T, class Out>() {
      AnyLayoutKernel<T, Out, true>::run(call, call.groups * call.m * call.n, groups,
                                         context.stream);
    });
  }
};

inline constexpr Rung kAnyLayout = rung_of<AnyLayout, GroupedGemm, GroupedGemmWeight>({
    .name = "any_layout",
    .from = "naive",
    .idea = "a matrix is a pointer and two strides, that of a group one stride more",
});

}  // namespace ws::grouped_gemm
