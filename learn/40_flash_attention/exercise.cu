// out = softmax(q k^T / sqrt(32)) v, one head: all are n x 32, in rows. A thread a query.
#include <cmath>

constexpr int kDepth = 32;

__global__ void attention_kernel(int n, const float* q, const float* k, const float* v,
                                 float* out) {
  __shared__ float keys[32][kDepth];
  __shared__ float values[32][kDepth];
  const int t = threadIdx.x;
  const int query = blockIdx.x * 32 + t;

  float mine[kDepth];
  float output[kDepth] = {};
  for (int d = 0; d < kDepth; ++d) mine[d] = query < n ? q[query * kDepth + d] : 0.0f;
  float most = -INFINITY;
  float sum = 0;

  for (int tile = 0; tile < n; tile += 32) {
    const int count = min(32, n - tile);
    __syncthreads();
    for (int i = 0; i < count; ++i) {
      keys[i][t] = k[(tile + i) * kDepth + t];
      values[i][t] = v[(tile + i) * kDepth + t];
    }
    __syncthreads();

    float scores[32];
    float larger = most;
    for (int i = 0; i < count; ++i) {
      float score = 0;
      for (int d = 0; d < kDepth; ++d) score += mine[d] * keys[i][d];
      scores[i] = score * rsqrtf(float(kDepth));
      larger = fmaxf(larger, scores[i]);
    }
    const float scale = expf(most - larger);
    sum *= scale;
    most = larger;
    for (int i = 0; i < count; ++i) {
      const float weight = expf(scores[i] - most);
      sum += weight;
      for (int d = 0; d < kDepth; ++d) output[d] += weight * values[i][d];
    }
  }

  if (query >= n) return;
  for (int d = 0; d < kDepth; ++d) out[query * kDepth + d] = output[d] / sum;
}

void attention(int n, const float* q, const float* k, const float* v, float* out) {
  attention_kernel<<<(n + 31) / 32, 32>>>(n, q, k, v, out);
}
