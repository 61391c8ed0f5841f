// The rows of a backward call as the upper rungs take them, and what they compute for an element.
#pragma once

#include "kernels/norm/rows.hpp"
#include "kernels/norm/sum_parts.hpp"

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

// After the parts' places are known; `statistics` is where they were computed, or null.
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
  return why.unless(call.has_statistics, "needs the forward's statistics") &&
         vectors_supported(call.rows, call.dtype, why) &&
         statistics_supported(call.statistics, true, why) &&
         columns_supported(call.weight, "weight", why);
}

// Bytes for the sums of `parts` blocks or clusters.
template <class Call>
Workspace parts_workspace(const Call& call, int64_t parts) {
  const int64_t sums = (call.dweight.data != nullptr || call.dbias.data != nullptr) ? 2 : 0;
  return {.bytes = sizeof(float) * static_cast<size_t>(sums * parts * call.rows.columns)};
}
template <class T, class Call>
void place_parts(GradientRows<T>& rows, const Call& call, int64_t parts, void* workspace) {
  float* floats = static_cast<float*>(workspace);
  if (call.dweight.data != nullptr) rows.dweight = floats;
  if (call.dbias.data != nullptr) rows.dbias = floats + parts * call.rows.columns;
}

#if defined(WS_EMULATED) || defined(__CUDACC__)

// Of a row: the sums of u = grad * weight and of u * z, z = (x - mean) * rstd.
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

// Adds a vector's elements to the row's totals.
template <bool kCentred, class Packed, class Parameter>
__device__ __forceinline__ void add_to_totals(GradientTotals<kCentred>& totals, const Packed& grad,
                                              const Packed& x, const Parameter& weight, float mean,
                                              float rstd) {
#pragma unroll
  for (int i = 0; i < Packed::kWords * Packed::kPerWord; ++i) {
    const float u = grad[i] * weight[i];
    const float z = (kCentred ? x[i] - mean : x[i]) * rstd;
    totals.product = thread::fma(u, z, totals.product);
    if constexpr (kCentred) totals.sum += u;
  }
}

// A vector of dx; adds to the columns' sums.
template <bool kCentred, class Packed, class Parameter, int kWidth>
__device__ __forceinline__ Vec<float, kWidth> gradient_of(const Packed& grad, const Packed& x,
                                                          const Parameter& weight, float mean,
                                                          float rstd, float slope, float shift,
                                                          Vec<float, kWidth>& dweight,
                                                          Vec<float, kWidth>& dbias) {
  Vec<float, kWidth> dx;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const float u = grad[i] * weight[i];
    const float z = (kCentred ? x[i] - mean : x[i]) * rstd;
    dx[i] = thread::fma(-z, slope, kCentred ? u - shift : u) * rstd;
    dweight[i] = thread::fma(grad[i], z, dweight[i]);
    if constexpr (kCentred) dbias[i] += grad[i];
  }
  return dx;
}

#endif

}  // namespace ws::norm
