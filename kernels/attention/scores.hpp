// What may be done to a score, for rungs that take every call: which keys a query sees, and what
// stands between <q, k> and the softmax.
#pragma once

#include "kernels/attention/operations.hpp"
#include "warpsmith/thread/max_sum.hpp"
#include "warpsmith/thread/memory.hpp"

#if WS_DEVICE_CODE
namespace ws::attention {

// One query, in its sequence.
struct QueryPlace {
  int64_t batch;
  int64_t head;
  int64_t row;
  int64_t over;  // the key that it stands over, which may be before the first
};

// The score of key j, of what <q, k> is. T: the dtype of q.
template <class T>
__device__ __forceinline__ float score_of(const Call& call, const QueryPlace& query, int64_t j,
                                          float product) {
  float score = product * call.scale;
  if (call.softcap > 0) score = call.softcap * thread::tanh(score / call.softcap);
  if (call.slopes.exists) {
    const int64_t at = query.batch * call.slopes.batch + query.head * call.slopes.head;
    score -= thread::load(call.slopes.data + at) * fabsf(static_cast<float>(query.over - j));
  }
  if (!call.bias.exists) return score;
  const Heads& bias = call.bias.at;
  const int64_t at =
      query.batch * bias.batch + query.head * bias.head + query.row * bias.row + j * bias.column;
  if (call.bias.dtype == DType::kBool) {
    return thread::load(bias.as<const bool>() + at) ? score : -thread::kInfinity;
  }
  return score + (call.bias.dtype == DType::kF32 ? thread::load(bias.as<const float>() + at)
                                                 : to_float(thread::load(bias.as<const T>() + at)));
}

// What a head's softmax begins with: its sink, or nothing.
__device__ __forceinline__ thread::MaxSum sink_of(const Call& call, int64_t head) {
  if (!call.sinks.exists) return thread::MaxSum::none();
  return {thread::load(call.sinks.data + head * call.sinks.head), 1.0F};
}

}  // namespace ws::attention
#endif
