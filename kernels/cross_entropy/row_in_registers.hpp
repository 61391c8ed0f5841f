// RowInRegistersKernel: a row in the registers of the threads that share it, from its logits to its
// loss, its gradient, or both.
#pragma once

#include "kernels/cross_entropy/rows.hpp"
#include "warpsmith/row/shape.hpp"

#if WS_DEVICE_CODE
namespace ws::cross_entropy {

using row::Shape;
using row::ShapeList;

// kLanes threads, of a warp or a block of their own, hold kVectors vectors of 16 bytes each.
template <class T, bool kHasLoss, bool kHasGradient, int kLanes, int kVectors, Fit kFit>
struct RowInRegistersKernel {
  static constexpr bool kSharesWarp = kLanes <= kWarpSize;
  static constexpr int kThreads = kSharesWarp ? 128 : kLanes;
  static constexpr int kRows = kThreads / kLanes;  // of a block
  using Share = row::Share<kWidest<T>, kLanes, kVectors, kFit>;
  using AllReduce = block::AllReduce<Total, kThreads>;
  using Arguments = Rows<T>;
  struct NoShared {};
  using SharedStorage =
      std::conditional_t<kSharesWarp || !kHasLoss, NoShared, typename AllReduce::Storage>;

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int lane = thread_index() % kLanes;
    int64_t r = block_index() * kRows + thread_index() / kLanes;
    const bool is_row = r < a.count;  // lanes without one still take part in the shuffles
    if (!is_row) r = 0;
    const T* x = a.logits + r * a.stride;
    typename Share::CutOf cut(x, a.columns);
    if (!is_row) cut.clear();
    const Share share(cut, lane);
    row::Held<T, Share> held;
    held.load(share, x, -thread::kInfinity);

    const Target target = a.target(r, is_row && lane == 0);
    float logit = 0;
    float weight = 0;
    float dloss = 0;
    float lse = 0;
    bool has_target = false;
    if (target.counts()) {
      weight = a.formula.weight_of(target.index);
      has_target = is_row && thread_of(cut, target.index, kLanes) == lane;
      if (has_target) logit = to_float(thread::load(x + target.index));
    }
    if constexpr (kHasGradient) dloss = a.dloss_of(r);
    if constexpr (kHasLoss) {
      const Total total = total_of(shared, share, held.values());
      lse = total.lse();
      if (has_target) a.store_loss(r, total, logit, weight);
      if (is_row && lane == 0 && target.is_ignored) a.store_numbers(r, 0, 0);
    } else {
      lse = thread::load(a.lse + r * a.strides[kLse]);
    }
    if constexpr (kHasGradient) {
      if (!is_row || !target.is_right) return;
      T* to = a.gradient + r * a.gradient_stride;
      if (target.is_ignored) return row::store(share, to, [](int) { return 0.0F; });
      const Gradient gradient = a.formula.gradient(lse, dloss, weight, a.formula.columns);
      const auto values = held.values();
      row::store(share, to, [&](int i) { return gradient(values[i]); });
      if (has_target) thread::store(to + target.index, from_float<T>(gradient.of_target(logit)));
    }
  }

  static void launch_on(const Arguments& rows, Stream stream) {
    launch<RowInRegistersKernel>(
        {.blocks = divide_up(rows.count, int64_t{kRows}), .threads = kThreads}, stream, rows);
  }

 private:
  // The maximum first, so that each exponential is taken once.
  __device__ __forceinline__ static Total total_of(SharedStorage& shared, const Share& share,
                                                   const thread::Tile<float, Share::kElements>& x) {
    constexpr int kTogether = kSharesWarp ? kLanes : kWarpSize;
    const auto larger = [](float l, float r) { return fmaxf(l, r); };
    const auto plus = [](float l, float r) { return l + r; };
    Total total;
    total.max = warp::all_reduce<kTogether>(thread::fold(x, -thread::kInfinity, larger), larger);
    const float shift = thread::finite_or_zero(total.max);
#pragma unroll
    for (int i = 0; i < Share::kElements; ++i) {
      const int edge = i - kVectors * Share::kWidth;
      const bool is_there = edge < 0 ? share.holds(i / Share::kWidth) : share.holds_edge(edge);
      total.sum += thread::fast_exp(x[i] - shift);  // of padding 0
      total.plain += is_there ? x[i] : 0.0F;
    }
    total.sum = warp::all_reduce<kTogether>(total.sum, plus);
    total.plain = warp::all_reduce<kTogether>(total.plain, plus);
    if constexpr (!kSharesWarp) total = AllReduce(shared).of_warps(total, Merge{});
    return total;
  }
};

// `List`: Shapes; run_named takes a name of static storage.
template <class List, bool kHasLoss, bool kHasGradient>
struct RowInRegisters {
  static bool supports(const Call& call, Why& why) {
    return why.unless(call.rows.row_bytes() <= List::kMostBytes, "registers hold rows of up to ",
                      List::kMostBytes, " bytes, not ", call.rows.row_bytes()) &&
           vectors_supported(call, why);
  }
  static void run_named(const Call& call, const Context& context, const char* name) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      const Rows<T> rows = rows_of<T>(call, name);
      const auto with = [&]<Fit kFit>() {
        List::first_that_holds(call.rows.row_bytes(), [&]<int kLanes, int kVectors>() {
          RowInRegistersKernel<T, kHasLoss, kHasGradient, kLanes, kVectors, kFit>::launch_on(
              rows, context.stream);
        });
      };
      if (rows_aligned(call.rows, widest(call))) {
        with.template operator()<Fit::kAligned>();
      } else {
        with.template operator()<Fit::kAnywhere>();
      }
    });
  }
};

}  // namespace ws::cross_entropy
#endif
