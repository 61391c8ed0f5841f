// From a query and a key to the gradients of their score, for rungs that take every call.
#pragma once

#include "kernels/attention/any_rows.hpp"
#include "kernels/attention/backward.hpp"
#include "kernels/attention/scores.hpp"
#include "warpsmith/warp/reduce.hpp"

#if WS_DEVICE_CODE
namespace ws::attention {

// What a query's softmax takes off the gradients of its weights: <dout, out>, less that of its lse.
// By a warp.
template <class T>
__device__ __forceinline__ float delta_of(const BackwardCall& call, const AnyRows& dout,
                                          const AnyRows& out, int64_t batch, int64_t head,
                                          int64_t row) {
  const auto columns = static_cast<int>(call.value_dim);
  const T* const of_dout = dout.at<const T>(batch, head, row);
  const T* const of_out = out.at<const T>(batch, head, row);
  float sum = 0;
  for (int d = lane_index() * 4; d < columns; d += kWarpSize * 4) {
    const Vec<float, 4> a = dout.four(of_dout, d, columns);
    const Vec<float, 4> b = out.four(of_out, d, columns);
#pragma unroll
    for (int e = 0; e < 4; ++e) sum += a[e] * b[e];
  }
  sum = warp::all_reduce(sum, [](float a, float b) { return a + b; });
  if (call.dlse.data == nullptr) return sum;
  return sum - thread::load(call.dlse.at<const float>(batch, head, row));
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
