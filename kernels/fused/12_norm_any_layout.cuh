// Idea: every call: any strides, with a residual or none, and e4m3 for the result, whose scale is
// given or is found by one more pass over the row.
// From norm_naive: a row's addresses are worked out; what is normalised comes from `sum`, which its
// lane has just written, or from x where there is no sum.
// Traffic: three passes over the row, four with a scale that has to be found.
// Limits: none.
#pragma once

#include "kernels/fused/norms.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/divide.hpp"
#include "warpsmith/thread/math.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::fused {

#if WS_DEVICE_CODE
// What a row's largest magnitude makes of it.
__device__ __forceinline__ float scale_of(float most) {
  return most > kLeastAmax ? most / kLargestE4m3 : 1.0F;
}
#endif

template <class T, bool kCentred>
struct NormAnyLayoutKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  using Out = std::conditional_t<kCentred, T, e4m3>;
  using Arguments = NormCall<kCentred>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t row = block_index() * kWarps + warp_index();
    const int64_t columns = a.rows.columns;
    if (row >= a.rows.rows) return;
    const auto place = [&]<class U>(NormOperand k, int64_t i) {
      return static_cast<U*>(a.rows.data[k]) + a.rows.offset(k, row) + i * a.rows.inner[k];
    };
    const auto column = [&](const Columns& of, int64_t i) {
      return to_float(thread::load(static_cast<const T*>(of.data) + i * of.stride));
    };
    const auto at = [&](NormOperand k, int64_t i) {
      return to_float(thread::load(place.template operator()<const T>(k, i)));
    };
    const auto plus = [](float p, float q) { return p + q; };
    const bool has_sum = a.rows.data[kNormSum] != nullptr;
    const NormOperand input = has_sum ? kNormSum : kNormX;

    float total = 0;
    for (int64_t i = lane_index(); i < columns && (has_sum || kCentred); i += kWarpSize) {
      float h = at(kNormX, i);
      if constexpr (kCentred) h += column(a.bias, i);
      if (a.rows.data[kNormResidual] != nullptr) h += at(kNormResidual, i);
      const T rounded = from_float<T>(h);
      thread::store(place.template operator()<T>(kNormSum, i), rounded);
      total += to_float(rounded);
    }
    const float mean =
        kCentred ? warp::all_reduce(total, plus) / static_cast<float>(columns) : 0.0F;

    float squares = 0;
    for (int64_t i = lane_index(); i < columns; i += kWarpSize) {
      const float away = at(input, i) - mean;
      squares += away * away;
    }
    squares = warp::all_reduce(squares, plus) / static_cast<float>(columns);
    const float rstd = thread::rsqrt(squares + a.eps);

    float inverse = 1;
    if constexpr (!kCentred) inverse = 1 / scale(a, row, rstd, at);
    for (int64_t i = lane_index(); i < columns; i += kWarpSize) {
      float z = (at(input, i) - mean) * rstd * column(a.weight, i);
      if constexpr (kCentred) z += column(a.shift, i);
      if constexpr (!kCentred) z *= inverse;
      thread::store(place.template operator()<Out>(kNormY, i), from_float<Out>(z));
    }
  }

 private:
  template <class At>
  static __device__ __forceinline__ float scale(const Arguments& a, int64_t row, float rstd,
                                                const At& at) {
    if (a.scale != nullptr) return thread::load(a.scale);
    const NormOperand input = a.rows.data[kNormSum] != nullptr ? kNormSum : kNormX;
    float most = 0;
    for (int64_t i = lane_index(); i < a.rows.columns; i += kWarpSize) {
      const T* weight = static_cast<const T*>(a.weight.data) + i * a.weight.stride;
      most = thread::max(most, ::fabsf(at(input, i) * rstd * to_float(thread::load(weight))));
    }
    most = warp::all_reduce(most, [](float p, float q) { return thread::max(p, q); });
    const float scale = scale_of(most);
    if (lane_index() == 0) {
      thread::store(static_cast<float*>(a.scales.data[0]) + a.scales.offset(0, row), scale);
    }
    return scale;
  }
};

struct NormAnyLayout {
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = NormAnyLayoutKernel<T, Call::kCentred>;
      launch<Kernel>(
          {.blocks = divide_up(call.rows.rows, Kernel::kWarps), .threads = Kernel::kThreads},
          context.stream, call);
    });
  }
};

inline constexpr Rung kNormAnyLayout =
    rung_of<NormAnyLayout, BiasResidualLayerNorm, RmsNormQuantized>({
        .name = "norm_any_layout",
        .from = "norm_naive",
        .idea = "any strides, a residual or none, e4m3 with a scale that is given or found",
    });

}  // namespace ws::fused
