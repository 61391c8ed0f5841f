// Idea: the gradients by their formulas, in two kernels: a warp a row for dx, which needs two sums
// over the row; a thread a column for dweight and dbias, which are sums over all rows.
// Traffic: grad and x are read three times, dx is written once. The second kernel's loads are
// coalesced, but it has no more threads than there are columns.
// Limits: dense matrices, the forward's statistics, weight of their dtype.
// Long: two kernels.
#pragma once

#include "kernels/norm/plain.hpp"
#include "warpsmith/launch.hpp"
#include "warpsmith/thread/memory.hpp"
#include "warpsmith/warp/reduce.hpp"

namespace ws::norm {

template <class T>
struct PlainBackward {
  const T* grad;      // [rows, columns]
  const T* x;         // [rows, columns]
  const T* weight;    // [columns]
  const float* mean;  // [rows]; null for rms_norm
  const float* rstd;  // [rows]
  T* dx;              // [rows, columns]
  T* dweight;         // [columns]
  T* dbias;           // [columns], or null
  int64_t rows;
  int64_t columns;
};

template <class T, bool kCentred>
struct BackwardOfRowKernel {
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpSize;
  using Arguments = PlainBackward<T>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t row = block_index() * kWarps + warp_index();
    if (row >= a.rows) return;
    const T* grad = a.grad + row * a.columns;
    const T* x = a.x + row * a.columns;
    const float mean = kCentred ? thread::load(a.mean + row) : 0.0F;
    const float rstd = thread::load(a.rstd + row);
    const auto u = [&](int64_t i) {  // gradient of the normalised element
      return to_float(thread::load(grad + i)) * to_float(thread::load(a.weight + i));
    };
    const auto z = [&](int64_t i) { return (to_float(thread::load(x + i)) - mean) * rstd; };
    const auto plus = [](float p, float q) { return p + q; };

    float sum = 0;
    float product = 0;
    for (int64_t i = lane_index(); i < a.columns; i += kWarpSize) {
      sum += u(i);
      product += u(i) * z(i);
    }
    const auto columns = static_cast<float>(a.columns);
    const float slope = warp::all_reduce(product, plus) / columns;
    float shift = 0;
    if constexpr (kCentred) shift = warp::all_reduce(sum, plus) / columns;
    for (int64_t i = lane_index(); i < a.columns; i += kWarpSize) {
      thread::store(a.dx + row * a.columns + i,
                    from_float<T>((u(i) - shift - z(i) * slope) * rstd));
    }
  }
};

template <class T, bool kCentred>
struct BackwardOfColumnKernel {
  static constexpr int kThreads = 64;
  using Arguments = PlainBackward<T>;
  struct SharedStorage {};

  __device__ void operator()(SharedStorage& /*shared*/, const Arguments& a) const {
    const int64_t column = block_index() * kThreads + thread_index();
    if (column >= a.columns) return;
    float dweight = 0;
    float dbias = 0;
    for (int64_t row = 0; row < a.rows; ++row) {
      const float grad = to_float(thread::load(a.grad + row * a.columns + column));
      const float x = to_float(thread::load(a.x + row * a.columns + column));
      const float mean = kCentred ? thread::load(a.mean + row) : 0.0F;
      dweight += grad * (x - mean) * thread::load(a.rstd + row);
      dbias += grad;
    }
    thread::store(a.dweight + column, from_float<T>(dweight));
    if (a.dbias != nullptr) thread::store(a.dbias + column, from_float<T>(dbias));
  }
};

struct BackwardPerRow {
  // All but the statistics.
  template <class Call>
  static bool is_plain(const Call& call, Why& why) {
    return why.unless(call.weight.exists && call.parameter_dtype == call.dtype,
                      "needs a weight of x's dtype, ", to_string(call.dtype)) &&
           why.unless(call.weight.stride == 1 && call.dweight.stride == 1 && call.dbias.stride == 1,
                      "takes parameters whose elements lie side by side") &&
           is_dense(call.rows, kGrad, why) && is_dense(call.rows, kInput, why) &&
           is_dense(call.rows, kDx, why) &&
           why.unless(call.rows.rows <= kMostBlocks, "takes up to ", kMostBlocks, " rows");
  }
  template <class Call>
  static bool supports(const Call& call, Why& why) {
    const auto& statistics = call.statistics;
    return is_plain(call, why) &&
           why.unless(call.has_statistics, "needs the forward's statistics") &&
           why.unless(
               statistics.outer == 0 || (statistics.outer == 1 && statistics.stride(kMean) == 1 &&
                                         statistics.stride(kRstd) == 1),
               "takes statistics that lie one after the other");
  }

  template <class T, class Call>
  static PlainBackward<T> arguments_of(const Call& call) {
    return {.grad = call.rows.template as<const T>(kGrad),
            .x = call.rows.template as<const T>(kInput),
            .weight = static_cast<const T*>(call.weight.data),
            .mean = call.statistics.template as<const float>(kMean),
            .rstd = call.statistics.template as<const float>(kRstd),
            .dx = call.rows.template as<T>(kDx),
            .dweight = static_cast<T*>(call.dweight.data),
            .dbias = static_cast<T*>(call.dbias.data),
            .rows = call.rows.rows,
            .columns = call.rows.columns};
  }
  template <class T, bool kCentred>
  static void launch_on(const PlainBackward<T>& arguments, Stream stream) {
    using OfRow = BackwardOfRowKernel<T, kCentred>;
    using OfColumn = BackwardOfColumnKernel<T, kCentred>;
    if (arguments.rows > 0 && arguments.columns > 0) {
      launch<OfRow>(
          {.blocks = divide_up(arguments.rows, OfRow::kWarps), .threads = OfRow::kThreads}, stream,
          arguments);
    }
    if (arguments.columns > 0) {
      launch<OfColumn>({.blocks = divide_up(arguments.columns, OfColumn::kThreads),
                        .threads = OfColumn::kThreads},
                       stream, arguments);
    }
  }
  template <class Call>
  static void run(const Call& call, const Context& context) {
    with_type<kFloats>(call.dtype, [&]<class T>() {
      launch_on<T, Call::kCentred>(arguments_of<T>(call), context.stream);
    });
  }
};

inline constexpr Seed kBackwardPerRowSeeds[] = {
    {.name = "layer_norm_backward", .operation = "layer_norm_backward"},
    {.name = "rms_norm_backward", .operation = "rms_norm_backward"},
};
inline constexpr Rung kBackwardPerRow =
    rung_of<BackwardPerRow, LayerNormBackward, RmsNormBackward>({
        .name = "backward_per_row",
        .from = "warp_per_row",
        .idea = "a warp a row for dx, a thread a column for dweight and dbias",
        .seeds = kBackwardPerRowSeeds,
    });

}  // namespace ws::norm
