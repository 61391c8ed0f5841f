// From a query and a key to the gradients of their score, for rungs that take every call.
#pragma once

#include "kernels/attention/any_rows.hpp"
#include "kernels/attention/backward.hpp"
#include "kernels/attention/scores.hpp"
#include "warpsmith/warp/reduce.hpp"

#if WS_DEVICE_CODE
namespace ws::attention {

// What the softmaxes of kRows queries from `row` on take off the gradients of their weights: <dout,
// out>, less that of their lse; 0 of rows that are not there. By a warp, which has all rows under
// way together.
template <class T, int kRows>
__device__ __forceinline__ void deltas_of(const BackwardCall& call, const AnyRows& dout,
                                          const AnyRows& out, int64_t batch, int64_t head,
                                          int64_t row, float (&deltas)[kRows]) {
  const auto columns = static_cast<int>(call.value_dim);
#pragma unroll
  for (float& delta : deltas) delta = 0;
  for (int d = lane_index() * 4; d < columns; d += kWarpSize * 4) {
    Vec<float, 4> of_dout[kRows] = {};
    Vec<float, 4> of_out[kRows] = {};
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      if (row + i >= call.queries) continue;
      const auto four = [&](const AnyRows& rows) {
        return rows.four(rows.at<const T>(batch, head, row + i), d, columns);
      };
      of_dout[i] = four(dout);
      of_out[i] = four(out);
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) deltas[i] += of_dout[i][e] * of_out[i][e];
    }
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    deltas[i] = warp::all_reduce(deltas[i], [](float a, float b) { return a + b; });
    if (call.dlse.data == nullptr || row + i >= call.queries) continue;
    deltas[i] -= thread::load(call.dlse.at<const float>(batch, head, row + i));
  }
}
template <class T>
__device__ __forceinline__ float delta_of(const BackwardCall& call, const AnyRows& dout,
                                          const AnyRows& out, int64_t batch, int64_t head,
                                          int64_t row) {
  float delta[1];
  deltas_of<T>(call, dout, out, batch, head, row, delta);
  return delta[0];
}

struct ScoreGradient {
  float weight = 0;
  float score = 0;    // the gradient of the score, as the softmax has it
  float product = 0;  // that of <q, k>
};

// Of <q, k> and <dout, v>. T: the dtype of q.
template <class T>
__device__ __forceinline__ ScoreGradient gradient_of(const Call& call, const QueryPlace& query,
                                                     int64_t j, float product, float values,
                                                     float lse, float delta) {
  if (lse == -thread::kInfinity) return {};  // the query has seen nothing
  ScoreGradient gradient;
  gradient.weight = thread::fast_exp(score_of<T>(call, query, j, product) - lse);
  gradient.score = gradient.weight * (values - delta);
  gradient.product = gradient.score * call.scale;
  if (call.softcap > 0) {
    const float part = thread::tanh(product * call.scale / call.softcap);
    gradient.product *= 1 - part * part;
  }
  return gradient;
}

}  // namespace ws::attention
#endif
