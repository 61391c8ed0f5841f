// Idea: a matrix is a pointer and two strides, a vector a pointer and one. Whichever index of A
//   takes the shorter steps, neighbouring threads follow it: 32 of them over as many rows, or all
//   of a block's along K; few rows are shared out among blocks.
// From split_columns: any strides, alignment, sizes, at the price of an element a load.
// Traffic: A once where one of its strides is 1; up to a sector of 32 bytes an element else.
// Limits: none.
#pragma once

#include "kernels/gemv/columns.hpp"
#include "warpsmith/device_facts.hpp"

namespace ws::gemv {

struct AnyLayoutPlan {
  static constexpr int kThreads = 256;
  static constexpr int kLoads = 4;

  int across = 1;     // threads side by side over rows of A
  int64_t share = 0;  // of K, of a part
  PartsPlan parts;

  explicit AnyLayoutPlan(const Call& call) {
    const auto power = [](int64_t n) {  // the least that is not smaller, up to the block
      int p = 1;
      while (p < n && p < kThreads) p *= 2;
      return p;
    };
    const bool rows_are_closer = std::abs(call.row) < std::abs(call.column);
    across = rows_are_closer ? kWarpSize : std::min(kWarpSize, kThreads / power(call.k));
    across = std::min(across, power(call.m));
    parts.groups = divide_up(std::max<int64_t>(call.m, 1), int64_t{across});
    const int64_t blocks = int64_t{4} * device_facts().multiprocessors;
    const int64_t tiles = divide_up(call.k, int64_t{kThreads} / across * kLoads);
    const int64_t wanted = std::clamp<int64_t>(blocks / parts.groups, 1, 1024);
    share = divide_up(call.k, std::clamp<int64_t>(tiles, 1, wanted));
    parts.parts = call.k == 0 ? 1 : static_cast<int>(divide_up(call.k, share));
    parts.partials = across;
  }
};

template <class T>
struct AnyLayoutKernel {
  static constexpr int kThreads = AnyLayoutPlan::kThreads;
  static constexpr int kLoads = AnyLayoutPlan::kLoads;
  using Merge = SumDown<kThreads, 1>;
  struct Arguments {
    const T* a;
    const T* x;
    T* y;
    int64_t m, k;
    int64_t row, column, x_step, y_step;  // strides
    int across;
    int64_t share;
    Parts<float> parts;
  };
  using SharedStorage = typename Merge::Storage;

  __device__ void operator()(SharedStorage& shared, const Arguments& g) const {
    const int64_t group = block_index() / g.parts.parts;
    const auto part = static_cast<uint32_t>(block_index() - group * g.parts.parts);
    const int64_t top = group * g.across;
    const int64_t row = top + (thread_index() & (g.across - 1));
    ColumnSums<1> sum{};
    if (row < g.m) {
      const int64_t last = (part + 1) * g.share < g.k ? (part + 1) * g.share : g.k;
      const int step = kThreads / g.across;
      const T* a = g.a + row * g.row;
      int64_t k = part * g.share + thread_index() / g.across;
      for (; k + (kLoads - 1) * step < last; k += kLoads * step) add<kLoads>(sum[0], g, a, k, step);
      for (; k < last; k += step) add<1>(sum[0], g, a, k, step);
    }
    Merge::run(shared, sum, g.across, g.parts, group, part, [&](int i, float total) {
      if (top + i < g.m) thread::store(g.y + (top + i) * g.y_step, from_float<T>(total));
    });
  }

  // kCount products more, all loads before the first.
  template <int kCount>
  __device__ __forceinline__ static void add(float& sum, const Arguments& g, const T* a, int64_t k,
                                             int step) {
    T of_a[kCount];
    T of_x[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      of_a[i] = thread::load(a + (k + i * step) * g.column);
      of_x[i] = thread::load(g.x + (k + i * step) * g.x_step);
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      sum = thread::fma(to_float(of_a[i]), to_float(of_x[i]), sum);
    }
  }
};

struct AnyLayout {
  static Workspace workspace(const Call& call) { return AnyLayoutPlan(call).parts.workspace(); }
  static void run(const Call& call, const Context& context) {
    const AnyLayoutPlan plan(call);
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = AnyLayoutKernel<T>;
      launch<Kernel>({.blocks = plan.parts.groups * plan.parts.parts, .threads = Kernel::kThreads},
                     context.stream,
                     {a_of<T>(call),
                      x_of<T>(call),
                      y_of<T>(call),
                      call.m,
                      call.k,
                      call.row,
                      call.column,
                      call.x_step,
                      call.y_step,
                      plan.across,
                      plan.share,
                      {plan.parts, context.workspace}});
    });
  }
};

inline constexpr Rung kAnyLayout = rung_of<AnyLayout, Gemv>({
    .name = "any_layout",
    .from = "split_columns",
    .idea = "a matrix is a pointer and two strides: any layout, alignment, padding, gaps",
});

}  // namespace ws::gemv
