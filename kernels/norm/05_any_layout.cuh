// Idea: every call that torch's users make: any strides, a residual, statistics, parameters of f32
// or none. A row's addresses are worked out, not assumed.
// From welford: still a warp a row and one pass; lanes keep moments (thread/moments.hpp).
// Traffic: two reads, one write, one more of each with a residual.
// Takes all that there is, so it is what the others leave. For rows that lie badly a warp's load
// takes as many sectors as it has lanes.
#pragma once

#include <limits>

#include "kernels/norm/operations.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/warp/moments.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::norm {

#if WS_DEVICE_CODE
// Element i of weight or bias; `standard` where there is none.
template <class T>
__device__ __forceinline__ float column(const Columns& of, DType dtype, int64_t i, float standard) {
  if (!of.exists) return standard;
  if (dtype == DType::kF32) return thread::load(static_cast<const float*>(of.data) + i * of.stride);
  return to_float(thread::load(static_cast<const T*>(of.data) + i * of.stride));
}
#endif

template <class T, bool kCentred>
struct AnyLayoutKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  using Arguments = ForwardCall<kCentred>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t row = block_index() * kWarps + warp_index();
    if (row >= a.rows.rows) return;
    const auto row_of = [&](int operand) -> T* {
      if (a.rows.data[operand] == nullptr) return nullptr;
      return static_cast<T*>(a.rows.data[operand]) + a.rows.offset(operand, row);
    };
    const T* x = row_of(kX);
    const T* residual = row_of(kResidual);
    T* y = row_of(kY);
    T* sum = row_of(kSum);
    const auto input = [&](int64_t i) {
      const float v = to_float(thread::load(x + i * a.rows.inner[kX]));
      if (residual == nullptr) return v;
      const float other = to_float(thread::load(residual + i * a.rows.inner[kResidual]));
      return to_float(from_float<T>(v + other));
    };

    const int64_t columns = a.rows.columns;
    auto mine = thread::Moments::none();
    float squares = 0;
    for (int64_t i = lane_index(); i < columns; i += kWarpSize) {
      const float v = input(i);
      if constexpr (kCentred) {
        mine = thread::add(mine, v);
      } else {
        squares += v * v;
      }
    }
    float mean = 0;
    if constexpr (kCentred) {
      const auto all = warp::all_reduce(mine, warp::MergeMoments{});
      mean = columns > 0 ? all.mean : std::numeric_limits<float>::quiet_NaN();
      squares = all.squares;
    } else {
      squares = warp::all_reduce(squares, [](float p, float q) { return p + q; });
    }
    const float rstd = thread::rsqrt(squares / static_cast<float>(columns) + a.eps);
    if (a.wants_statistics && lane_index() == 0) {
      const auto store = [&](int which, float value) {
        thread::store(
            static_cast<float*>(a.statistics.data[which]) + a.statistics.offset(which, row), value);
      };
      if constexpr (kCentred) store(kMean, mean);
      store(kRstd, rstd);
    }

    for (int64_t i = lane_index(); i < columns; i += kWarpSize) {
      const float v = input(i);
      if (sum != nullptr) thread::store(sum + i * a.rows.inner[kSum], from_float<T>(v));
      const float weight = column<T>(a.weight, a.parameter_dtype, i, 1.0F);
      const float bias = column<T>(a.bias, a.parameter_dtype, i, 0.0F);
      thread::store(y + i * a.rows.inner[kY], from_float<T>((v - mean) * rstd * weight + bias));
    }
  }
};

struct AnyLayout {
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      using Kernel = AnyLayoutKernel<T, Call::kCentred>;
      launch<Kernel>(
          {.blocks = divide_up(call.rows.rows, Kernel::kWarps), .threads = Kernel::kThreads},
          context.stream, call);
    });
  }
};

inline constexpr Rung kAnyLayout = rung_of<AnyLayout, LayerNorm, RmsNorm>({
    .name = "any_layout",
    .from = "welford",
    .idea = "any strides, a residual, statistics, parameters of f32: whatever a call may hold",
});

}  // namespace ws::norm
