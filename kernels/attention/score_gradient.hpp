// From a query and a key to the gradients of their score, for rungs that take every call.
#pragma once

#include "kernels/attention/backward.hpp"
#include "kernels/attention/scores.hpp"

#if WS_DEVICE_CODE
namespace ws::attention {

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
