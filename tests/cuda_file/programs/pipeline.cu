// Tiles that arrive while others are used: <cuda_pipeline.h>, with a tail of zeros, two and four stages.
#include <cuda_pipeline.h>
#include <cstdio>
#include <vector>
constexpr int kTile = 128;

template <int kStages>
__global__ void add_one(const float4* in, float4* out, int n, int tiles) {
  __shared__ float4 stage[kStages][kTile];
  auto fetch = [&](int t) {
    if (t < tiles) {
      const int at = t * kTile + threadIdx.x;
      __pipeline_memcpy_async(&stage[t % kStages][threadIdx.x], at < n ? in + at : in, sizeof(float4), at < n ? 0 : sizeof(float4));
    }
    __pipeline_commit();
  };
  for (int t = 0; t < kStages - 1; ++t) fetch(t);
  for (int t = 0; t < tiles; ++t) {
    fetch(t + kStages - 1);
    __pipeline_wait_prior(kStages - 1);
    __syncthreads();
    const float4 v = stage[t % kStages][kTile - 1 - threadIdx.x];
    out[t * kTile + kTile - 1 - threadIdx.x] = make_float4(v.x + 1, v.y + 1, v.z + 1, v.w + 1);
    __syncthreads();
  }
}
__global__ void words(const int* in, int* out) {
  extern __shared__ int s[];
  __pipeline_memcpy_async(s + threadIdx.x, in + threadIdx.x, 4);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncwarp();
  out[threadIdx.x] = s[threadIdx.x ^ 1];
}
int main() {
  const int n = 700, tiles = (n + kTile - 1) / kTile;
  std::vector<float> h(4 * n), got(4 * tiles * kTile);
  for (int i = 0; i < 4 * n; ++i) h[i] = i;
  float4 *in, *out;
  cudaMalloc(&in, 16 * n); cudaMalloc(&out, 16 * tiles * kTile);
  cudaMemcpy(in, h.data(), 16 * n, cudaMemcpyHostToDevice);
  for (int stages : {2, 4}) {
    if (stages == 2) add_one<2><<<1, kTile>>>(in, out, n, tiles);
    else add_one<4><<<1, kTile>>>(in, out, n, tiles);
    cudaMemcpy(got.data(), out, got.size() * 4, cudaMemcpyDeviceToHost);
    for (int i = 0; i < (int)got.size(); ++i)
      if (got[i] != (i < 4 * n ? i + 1.f : 1.f)) return printf("%d stages: %d is %f\n", stages, i, got[i]), 1;
  }
  words<<<1, 32, 32 * 4>>>((const int*)in, (int*)out);
  int w[32];
  cudaMemcpy(w, out, sizeof w, cudaMemcpyDeviceToHost);
  const float f = 1.f;
  return w[0] == __builtin_bit_cast(int, f) && cudaGetLastError() == cudaSuccess ? 0 : 2;
}
