// Warp and block reductions by shuffles, as the kernels of transformers have them.
#include <cuda_runtime.h>
#include <cfloat>
#include <cstdio>
#include <cstdlib>

#define WARP_SIZE 32
#define FINAL_MASK 0xffffffff

template <typename T>
__inline__ __device__ T warpReduceSum(T val) {
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) val += __shfl_xor_sync(FINAL_MASK, val, mask, 32);
  return val;
}
template <const int kWarpSize = WARP_SIZE>
__device__ __forceinline__ float warp_reduce_max_f32(float val) {
#pragma unroll
  for (int mask = kWarpSize >> 1; mask >= 1; mask >>= 1) {
    val = fmaxf(val, __shfl_xor_sync(0xffffffff, val, mask));
  }
  return val;
}
template <typename T>
__inline__ __device__ T blockReduceSum(T val) {
  static __shared__ T shared[32];
  int lane = threadIdx.x & 0x1f;
  int wid = threadIdx.x >> 5;
  val = warpReduceSum<T>(val);
  if (lane == 0) shared[wid] = val;
  __syncthreads();
  val = (threadIdx.x < (blockDim.x / 32.f)) ? shared[lane] : (T)(0.0f);
  val = warpReduceSum<T>(val);
  return val;
}

__global__ void row_stats(const float *x, float *sums, double *sums64, float *maxima, int n) {
  const float *row = x + blockIdx.x * n;
  float local = 0.f, best = -FLT_MAX;
  double local64 = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    local += row[i];
    local64 += row[i];
    best = max(best, row[i]);
  }
  float total = blockReduceSum<float>(local);
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
  double total64 = blockReduceSum(local64);
  if (threadIdx.x == 0) sums64[blockIdx.x] = total64;
  best = warp_reduce_max_f32(best);
  if (threadIdx.x == 0) maxima[blockIdx.x] = best;
}

int main() {
  const int rows = 4, n = 300;
  float h[rows * n];
  for (int i = 0; i < rows * n; ++i) h[i] = (float)((i * 37) % 101) - 50.0f;
  float *x, *s, *m;
  double *s64;
  cudaMalloc(&x, sizeof(h));
  cudaMalloc(&s, rows * 4);
  cudaMalloc(&s64, rows * 8);
  cudaMalloc(&m, rows * 4);
  cudaMemcpy(x, h, sizeof(h), cudaMemcpyHostToDevice);
  row_stats<<<rows, 128>>>(x, s, s64, m, n);
  float hs[rows];
  double hs64[rows];
  cudaMemcpy(hs, s, sizeof(hs), cudaMemcpyDeviceToHost);
  cudaMemcpy(hs64, s64, sizeof(hs64), cudaMemcpyDeviceToHost);
  for (int r = 0; r < rows; ++r) {
    double expected = 0;
    for (int i = 0; i < n; ++i) expected += h[r * n + i];
    if (hs64[r] != expected || abs(hs[r] - expected) > 1e-3) {
      printf("row %d: %f %f, not %f\n", r, hs[r], hs64[r], expected);
      return 1;
    }
  }
  return 0;
}
