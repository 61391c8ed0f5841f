// The rows of a backward call as the upper rungs take them, and what they compute for an element.
#pragma once

#include "kernels/norm/rows.hpp"
#include "kernels/norm/sum_parts.hpp"
#include "warpsmith/block/reduce.hpp"

namespace ws::norm {

template <class T>
struct GradientRows {
  const T* grad;
  const T* x;
  T* dx;
  int64_t grad_stride;  // from row to row
  int64_t x_stride;
  int64_t dx_stride;
  int64_t count;
  int64_t vectors;    // of a row
  const float* mean;  // null: 0
  const float* rstd;
  const void* weight;  // null: 1
  float* dweight;      // [parts, columns]: a block's or cluster's sum; null: not wanted
  float* dbias;
  float inverse_columns;
};

// Without the parts' places, and statistics that are not given: prepare() adds them.
template <class T, bool kCentred>
GradientRows<T> gradient_rows_of(const BackwardCall<kCentred>& call) {
  const auto& rows = call.rows;
  return {.grad = rows.template as<const T>(kGrad),
          .x = rows.template as<const T>(kInput),
          .dx = rows.template as<T>(kDx),
          .grad_stride = rows.stride(kGrad),
          .x_stride = rows.stride(kInput),
          .dx_stride = rows.stride(kDx),
          .count = rows.rows,
          .vectors = rows.columns / row::kWidest<T>,
          .mean = call.statistics.template as<const float>(kMean),
          .rstd = call.statistics.template as<const float>(kRstd),
          .weight = call.weight.data,
          .dweight = nullptr,
          .dbias = nullptr,
          .inverse_columns = 1.0F / static_cast<float>(rows.columns)};
}

template <bool kCentred>
bool aligned_gradient_rows(const BackwardCall<kCentred>& call, Why& why) {
  return vectors_supported(call.rows, call.dtype, why) &&
         statistics_supported(call.statistics, call.has_statistics, why) &&
         columns_supported(call.weight, "weight", why);
}

// What a call keeps in its workspace, in floats: the sums of `parts` blocks or clusters, and the
// statistics where the forward's are not given.
template <class Call>
Workspace gradient_workspace(const Call& call, int64_t parts) {
  const int64_t sums = (call.dweight.exists || call.dbias.exists) ? 2 : 0;
  const int64_t statistics = call.has_statistics ? 0 : 2 * call.rows.rows;
  const int64_t floats = sums * parts * call.rows.columns + statistics;
  return {.bytes = sizeof(float) * static_cast<size_t>(floats)};
}

// Of a row: the sums of u = grad * weight and of u * (x - mean).
template <bool kCentred>
struct GradientTotals {
  float product;
  float sum;  // of layer_norm
};
template <>
struct GradientTotals<false> {
  float product;
};

template <bool kCentred>
struct AddGradientTotals {
  using Total = GradientTotals<kCentred>;
  __device__ __forceinline__ Total operator()(const Total& a, const Total& b) const {
    if constexpr (kCentred) {
      return {a.product + b.product, a.sum + b.sum};
    } else {
      return {a.product + b.product};
    }
  }
};

// Mean and rstd of a row as the forward left them; 0 beyond the last row.
template <bool kCentred>
struct GivenStatistics {
  float mean = 0;
  float rstd = 0;

  __device__ __forceinline__ GivenStatistics(float given_mean, float given_rstd)
      : mean(given_mean), rstd(given_rstd) {}
  template <class T>
  __device__ __forceinline__ GivenStatistics(const GradientRows<T>& rows, int64_t r) {
    if (r >= rows.count) return;
    if constexpr (kCentred) mean = thread::load(rows.mean + r);
    rstd = thread::load(rows.rstd + r);
  }
  __device__ __forceinline__ float away(float x) const { return kCentred ? x - mean : x; }
};

// Adds a vector's elements to the row's totals.
template <bool kCentred, class Packed, class Parameter>
__device__ __forceinline__ void add_to_totals(GradientTotals<kCentred>& totals, const Packed& grad,
                                              const Packed& x, const Parameter& weight,
                                              const GivenStatistics<kCentred>& row) {
#pragma unroll
  for (int i = 0; i < Packed::kWords * Packed::kPerWord; ++i) {
    const float u = grad[i] * weight[i];
    totals.product = thread::fma(u, row.away(x[i]), totals.product);
    if constexpr (kCentred) totals.sum += u;
  }
}

// What each element of a row's dx has in common:
//   dx = rstd * u - rstd^3 * mean(u * away) * away - rstd * mean(u),  away = x - mean
template <bool kCentred>
struct GradientSlope {
  float slope;
  float shift = 0;

  __device__ __forceinline__ GradientSlope(float of_away, float of_all)
      : slope(of_away), shift(of_all) {}
  template <class T>
  __device__ __forceinline__ GradientSlope(const GradientRows<T>& rows,
                                           const GivenStatistics<kCentred>& row,
                                           const GradientTotals<kCentred>& totals)
      : slope(totals.product * rows.inverse_columns * row.rstd * row.rstd * row.rstd) {
    if constexpr (kCentred) shift = totals.sum * rows.inverse_columns * row.rstd;
  }
};

// A vector of dx; adds to the columns' sums. With rstd in grad from the start, an element takes
// seven instructions.
template <bool kCentred, class Packed, class Parameter, int kWidth>
__device__ __forceinline__ Vec<float, kWidth> gradient_of(const Packed& grad, const Packed& x,
                                                          const Parameter& weight,
                                                          const GivenStatistics<kCentred>& row,
                                                          const GradientSlope<kCentred>& line,
                                                          Vec<float, kWidth>& dweight,
                                                          Vec<float, kWidth>& dbias) {
  Vec<float, kWidth> dx;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const float away = row.away(x[i]);
    const float scaled = grad[i] * row.rstd;
    dx[i] = thread::fma(scaled, weight[i], thread::fma(-line.slope, away, -line.shift));
    dweight[i] = thread::fma(scaled, away, dweight[i]);
    if constexpr (kCentred) dbias[i] += grad[i];
  }
  return dx;
}

// Mean and rstd of each row, for gradients of a forward that kept none: kLanes threads a row, a
// warp or a block.
template <class T, bool kCentred, int kLanes>
struct RowStatisticsKernel {
  static constexpr int kThreads = 256;
  static constexpr int kRows = kThreads / kLanes;  // of a block
  static constexpr int kWidth = row::kWidest<T>;
  using Packed = row::Packed<T, kWidth>;
  using Totals = norm::Totals<kCentred>;
  using Reduce = block::AllReduceOfLaunch<typename Totals::Total, kThreads>;
  struct Arguments {
    Rows<T> rows;  // x, mean and rstd alone
  };
  struct SharedStorage {
    typename Reduce::Storage total;
  };

  __device__ void operator()(SharedStorage& shared, const Arguments& a) const {
    const int64_t r = block_index() * kRows + thread_index() / kLanes;
    const bool is_row = r < a.rows.count;
    const T* x = a.rows.x + (is_row ? r : 0) * a.rows.x_stride;
    const int lane = thread_index() % kLanes;
    const int64_t vectors = is_row ? a.rows.vectors : 0;
    Running<kCentred> mine;
#pragma unroll 4
    for (int64_t v = lane; v < vectors; v += kLanes)
      mine.add(Packed::load(x + v * kWidth), v == lane);
    const auto columns = static_cast<float>(a.rows.vectors * kWidth);
    // Lanes of this warp, every kLanes-th vector.
    int64_t held = 0;
    if (kLanes == kWarpSize) {
      held = vectors;
    } else {
      const int64_t whole = vectors / kLanes;
      const int64_t rest = vectors - whole * kLanes - warp_index() * kWarpSize;
      held = whole * kWarpSize + (rest < 0 ? 0 : (rest < kWarpSize ? rest : kWarpSize));
    }
    auto total = mine.template of_lanes<kWarpSize>(static_cast<float>(held * kWidth));
    if constexpr (kLanes > kWarpSize) {
      total =
          Reduce::of_warps(shared.total, total, Totals::none(), typename Totals::MergeAll(columns));
    }
    if (is_row && lane == 0) Normal<kCentred>(a.rows, total).store_statistics(a.rows, r);
  }
};

// Places the parts in the workspace and, where the forward's are not given, computes the
// statistics.
template <class T, bool kCentred>
void prepare(GradientRows<T>& rows, const BackwardCall<kCentred>& call, int64_t parts,
             const Context& context) {
  float* floats = static_cast<float*>(context.workspace);
  if (call.dweight.exists) rows.dweight = floats;
  if (call.dbias.exists) rows.dbias = floats + parts * call.rows.columns;
  if (call.has_statistics) return;
  if (rows.dweight != nullptr || rows.dbias != nullptr) floats += 2 * parts * call.rows.columns;
  Rows<T> of_x{};
  of_x.x = rows.x;
  of_x.x_stride = rows.x_stride;
  of_x.count = rows.count;
  of_x.vectors = rows.vectors;
  of_x.mean = floats;
  of_x.rstd = floats + rows.count;
  of_x.eps = call.eps;
  of_x.inverse_columns = rows.inverse_columns;
  rows.mean = of_x.mean;
  rows.rstd = of_x.rstd;
  if (rows.count == 0) return;
  constexpr int64_t kVectorsOfWarp = 256;  // 4 KiB
  const auto with = [&]<int kLanes>() {
    using Kernel = RowStatisticsKernel<T, kCentred, kLanes>;
    launch<Kernel>(
        {.blocks = divide_up(rows.count, int64_t{Kernel::kRows}), .threads = Kernel::kThreads},
        context.stream, {of_x});
  };
  if (rows.vectors <= kVectorsOfWarp) return with.template operator()<kWarpSize>();
  with.template operator()<256>();
}

}  // namespace ws::norm
