// Idea: one pass over rows of any layout: the row stays in registers as in norm_in_registers, but
// element by element: neighbouring lanes take neighbouring elements.
// From norm_in_registers: nothing is asked of widths, addresses and strides. An access is two or
//   four bytes a lane, up to 16 of each operand on their way at once, which is as much in flight.
// Traffic: two reads and two writes, or of the last a byte an element; where elements lie apart, a
//   sector of 32 bytes for each.
// Limits: rows of 1 to 8192 elements.
// Long: two operations, whose rows go the same way.
#pragma once

#include "kernels/fused/12_norm_any_layout.cuh"
#include "kernels/fused/norm_totals.hpp"
#include "warpsmith/block/reduce.hpp"
#include "warpsmith/row/shape.hpp"

namespace ws::fused {

// kLanes threads share a row, kItems elements each.
template <int kLanes_, int kItems_>
struct ElementsShape {
  static constexpr int kLanes = kLanes_;
  static constexpr int kItems = kItems_;
  static constexpr int64_t kBytes = int64_t{kLanes} * kItems;  // counted in elements
};

// kDense: elements lie side by side, so that addresses are the first one's and constants.
template <class T, bool kCentred, bool kDense, class Shape>
struct NormElementsKernel {
  static constexpr int kLanes = Shape::kLanes;
  static constexpr int kItems = Shape::kItems;
  static constexpr bool kBlock = kLanes > kWarpSize;
  static constexpr int kThreads = kBlock ? kLanes : 128;
  static constexpr int kMinBlocks = std::max(768 / kThreads, 1);
  static constexpr int kRows = kThreads / kLanes;  // of a block
  using Out = std::conditional_t<kCentred, T, e4m3>;
  using Reduce = block::AllReduce<SumAndMost, kThreads>;
  using Arguments = NormCall<kCentred>;
  struct SharedStorage {
    typename Reduce::Storage totals;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    Reduce reduce(shared.totals);
    const auto all = [&](SumAndMost value) {
      if constexpr (kBlock) {
        return reduce(value, Both{});
      } else {
        return warp::all_reduce(value, Both{});
      }
    };
    const int lane = kRows == 1 ? thread_index() : thread_index() % kLanes;
    int64_t r = block_index();
    auto columns = static_cast<int>(a.rows.columns);
    if constexpr (kRows > 1) {
      r = r * kRows + thread_index() / kLanes;
      if (r >= a.rows.rows) r = 0, columns = 0;  // its lanes still take part in the reductions
    }
    const auto holds = [&](int i) { return lane + i * kLanes < columns; };
    const auto step = [&](NormOperand k) { return kDense ? int64_t{1} : a.rows.inner[k]; };
    const auto row = [&]<class U>(NormOperand k) {
      return static_cast<U*>(a.rows.data[k]) + a.rows.offset(k, r) + lane * step(k);
    };
    // All loads are under way before anything waits for one.
    const auto load = [&](const T* first, int64_t stride, T(&to)[kItems]) {
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        to[i] = holds(i) ? thread::load(first + i * kLanes * stride) : from_float<T>(0.0F);
      }
    };
    const auto parameter = [&](const Columns& of, int i) {
      const int64_t stride = kDense ? 1 : of.stride;
      const T* const first = static_cast<const T*>(of.data) + lane * stride;
      return to_float(thread::load(first + i * kLanes * stride));
    };

    T x[kItems];
    load(row.template operator()<const T>(kNormX), step(kNormX), x);
    if (kCentred || a.rows.data[kNormResidual] != nullptr) {
      T other[kItems];
      load(row.template operator()<const T>(kNormResidual), step(kNormResidual), other);
      T* const sum = row.template operator()<T>(kNormSum);
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        if (!holds(i)) continue;
        float h = to_float(x[i]);
        if constexpr (kCentred) h += parameter(a.bias, i);
        x[i] = from_float<T>(h + to_float(other[i]));
        thread::store(sum + i * kLanes * step(kNormSum), x[i]);
      }
    }
    const float inverse_columns = 1.0F / static_cast<float>(a.rows.columns);
    float mean = 0;
    if constexpr (kCentred) {
      float total = 0;
#pragma unroll
      for (int i = 0; i < kItems; ++i) total += to_float(x[i]);  // what a lane does not hold is 0
      mean = all({total, 0}).sum * inverse_columns;
    }
    // The largest magnitude of what is quantised, but for rstd.
    SumAndMost total{};
    const bool finds_scale = !kCentred && a.scale == nullptr;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (!holds(i)) continue;
      const float away = to_float(x[i]) - mean;
      total.sum = thread::fma(away, away, total.sum);
      if (finds_scale) {
        total.most = thread::max(total.most, ::fabsf(to_float(x[i]) * parameter(a.weight, i)));
      }
    }
    total = all(total);
    const float rstd = thread::rsqrt(thread::fma(total.sum, inverse_columns, a.eps));
    float factor = rstd;
    if constexpr (!kCentred) {
      const float scale = finds_scale ? scale_of(rstd * total.most) : thread::load(a.scale);
      if (finds_scale && lane == 0 && columns > 0) {
        thread::store(static_cast<float*>(a.scales.data[0]) + a.scales.offset(0, r), scale);
      }
      factor = rstd * (1 / scale);
    }
    Out* const y = row.template operator()<Out>(kNormY);
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (!holds(i)) continue;
      const float z = (to_float(x[i]) - mean) * factor;
      const float weight = parameter(a.weight, i);
      const float out = kCentred ? thread::fma(z, weight, parameter(a.shift, i)) : z * weight;
      thread::store(y + i * kLanes * step(kNormY), from_float<Out>(out));
    }
  }
};

// A warp's rows need no barrier; longer ones have as many threads as hold them by 16 elements.
struct NormElements {
  using Shapes = row::ByCapacity<ElementsShape<32, 16>, ElementsShape<128, 16>,
                                 ElementsShape<256, 16>, ElementsShape<512, 16>>;

  template <class Call>
  static bool supports(const Call& call, Why& why) {
    return why.unless(call.rows.columns > 0 && call.rows.columns <= Shapes::kMostBytes,
                      "holds rows of 1 to ", Shapes::kMostBytes, " elements, not ",
                      call.rows.columns);
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      Shapes::first_that_holds(call.rows.columns, [&]<class Shape>() {
        if (is_dense(call)) return launch_on<T, true, Shape>(call, context);
        launch_on<T, false, Shape>(call, context);
      });
    });
  }

 private:
  template <class Call>
  static bool is_dense(const Call& call) {
    for (int k = 0; k < kNormOperands; ++k) {
      if (call.rows.data[k] != nullptr && call.rows.inner[k] != 1) return false;
    }
    for (const Columns* of : {&call.bias, &call.weight, &call.shift}) {
      if (of->data != nullptr && of->stride != 1) return false;
    }
    return true;
  }
  template <class T, bool kDense, class Shape, class Call>
  static void launch_on(const Call& call, const Context& context) {
    using Kernel = NormElementsKernel<T, Call::kCentred, kDense, Shape>;
    launch<Kernel>(
        {.blocks = divide_up(call.rows.rows, int64_t{Kernel::kRows}), .threads = Kernel::kThreads},
        context.stream, call);
  }
};

}  // namespace ws::fused
