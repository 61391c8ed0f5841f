// What the textbook rungs take: a dense matrix of rows, weight and bias of its dtype, and nothing
// else.
#pragma once

#include "kernels/norm/operations.hpp"

namespace ws::norm {

template <class T>
struct Plain {
  const T* x;       // [rows, columns]
  const T* weight;  // [columns]
  const T* bias;    // [columns]; null for rms_norm
  T* y;             // [rows, columns]
  int64_t rows;
  int64_t columns;
  float eps;
};

template <class T, bool kCentred>
Plain<T> plain_of(const ForwardCall<kCentred>& call) {
  return {call.rows.template as<T>(kX),
          static_cast<const T*>(call.weight.data),
          static_cast<const T*>(call.bias.data),
          call.rows.template as<T>(kY),
          call.rows.rows,
          call.rows.columns,
          call.eps};
}

// Rows one after the other, elements side by side.
template <int kMost>
bool is_dense(const RowLayout<kMost>& rows, int operand, Why& why) {
  const auto k = static_cast<size_t>(operand);
  return why.unless(rows.outer <= 1 && rows.inner[k] == 1 &&
                        (rows.outer == 0 || rows.stride(operand) == rows.columns),
                    "takes rows one after the other, each with its elements side by side");
}

template <bool kCentred>
bool is_plain(const ForwardCall<kCentred>& call, Why& why) {
  return why.unless(call.weight.exists && (!kCentred || call.bias.exists), "needs weight",
                    kCentred ? " and bias" : "") &&
         why.unless(call.parameter_dtype == call.dtype, "takes parameters of x's dtype, ",
                    to_string(call.dtype), ", not ", to_string(call.parameter_dtype)) &&
         why.unless(call.weight.stride == 1 && call.bias.stride == 1,
                    "takes parameters whose elements lie side by side") &&
         why.unless(call.rows.size[kResidual] == 0, "adds no residual") &&
         why.unless(!call.wants_statistics, "gives no statistics") &&
         is_dense(call.rows, kX, why) && is_dense(call.rows, kY, why) &&
         why.unless(call.rows.rows <= kMostBlocks, "takes up to ", kMostBlocks, " rows");
}

}  // namespace ws::norm
