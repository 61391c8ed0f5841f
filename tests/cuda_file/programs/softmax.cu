// Softmax over rows: online, with float4 loads.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#define FLOAT4(value) (reinterpret_cast<float4 *>(&(value))[0])
#define CUDA_CHECK(call)                                                                    \
  do {                                                                                      \
    cudaError_t status = (call);                                                            \
    if (status != cudaSuccess) {                                                            \
      fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(status));        \
      exit(1);                                                                              \
    }                                                                                       \
  } while (0)

struct __align__(8) MD { float m; float d; };

__device__ __forceinline__ MD warp_reduce_md(MD value) {
  for (int stride = 16; stride >= 1; stride >>= 1) {
    MD other;
    other.m = __shfl_xor_sync(0xffffffff, value.m, stride);
    other.d = __shfl_xor_sync(0xffffffff, value.d, stride);
    bool bigger = value.m > other.m;
    MD big = bigger ? value : other, small = bigger ? other : value;
    value.d = big.d + small.d * __expf(small.m - big.m);
    value.m = big.m;
  }
  return value;
}

__global__ void online_softmax(float *x, float *y, int n) {
  float *row = x + blockIdx.x * n;
  __shared__ MD parts[8];
  MD v{-FLT_MAX, 0.0f};
  for (int i = threadIdx.x * 4; i < n; i += blockDim.x * 4) {
    float4 r = FLOAT4(row[i]);
    float m = fmaxf(fmaxf(r.x, r.y), fmaxf(r.z, r.w));
    float next = fmaxf(v.m, m);
    v.d = v.d * __expf(v.m - next) + __expf(r.x - next) + __expf(r.y - next) + __expf(r.z - next) + __expf(r.w - next);
    v.m = next;
  }
  v = warp_reduce_md(v);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane == 0) parts[warp] = v;
  __syncthreads();
  v = lane < blockDim.x / 32 ? parts[lane] : MD{-FLT_MAX, 0.0f};
  v = warp_reduce_md(v);
  float inv = __fdividef(1.0f, v.d);
  for (int i = threadIdx.x * 4; i < n; i += blockDim.x * 4) {
    float4 r = FLOAT4(row[i]), o;
    o.x = __expf(r.x - v.m) * inv;
    o.y = __expf(r.y - v.m) * inv;
    o.z = __expf(r.z - v.m) * inv;
    o.w = __expf(r.w - v.m) * inv;
    FLOAT4(y[blockIdx.x * n + i]) = o;
  }
}

int main() {
  const int rows = 3, n = 1024;
  float *h = (float *)malloc(rows * n * 4), *out = (float *)malloc(rows * n * 4);
  for (int i = 0; i < rows * n; ++i) h[i] = sinf(i) * 5;
  float *x, *y;
  CUDA_CHECK(cudaMalloc(&x, rows * n * 4));
  CUDA_CHECK(cudaMalloc(&y, rows * n * 4));
  CUDA_CHECK(cudaMemcpy(x, h, rows * n * 4, cudaMemcpyHostToDevice));
  online_softmax<<<rows, 256>>>(x, y, n);
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaMemcpy(out, y, rows * n * 4, cudaMemcpyDeviceToHost));
  for (int r = 0; r < rows; ++r) {
    double max = -1e30, sum = 0;
    for (int i = 0; i < n; ++i) max = fmax(max, h[r * n + i]);
    for (int i = 0; i < n; ++i) sum += exp(h[r * n + i] - max);
    for (int i = 0; i < n; ++i)
      if (fabs(out[r * n + i] - exp(h[r * n + i] - max) / sum) > 1e-6) return 1;
  }
  return 0;
}
