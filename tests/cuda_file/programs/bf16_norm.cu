// bfloat16 with f32 sums.
#include <cuda_bf16.h>
#include <vector>
#include <cmath>
typedef __nv_bfloat16 bf16;
__global__ void rms_norm(const bf16 *x, bf16 *y, int n, float eps) {
  __shared__ float s_sum;
  float v = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) { float f = __bfloat162float(x[blockIdx.x * n + i]); v += f * f; }
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  __shared__ float w[32];
  if ((threadIdx.x & 31) == 0) w[threadIdx.x >> 5] = v;
  __syncthreads();
  if (threadIdx.x == 0) { float t = 0; for (int i = 0; i < blockDim.x / 32; ++i) t += w[i]; s_sum = rsqrtf(t / n + eps); }
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = __float2bfloat16(__bfloat162float(x[blockIdx.x * n + i]) * s_sum);
}
int main() {
  const int rows = 4, n = 200;
  std::vector<bf16> x(rows * n), y(rows * n);
  for (int i = 0; i < rows * n; ++i) x[i] = __float2bfloat16((i * 7 % 23) - 11.0f);
  bf16 *dx, *dy;
  cudaMalloc(&dx, x.size() * sizeof(bf16));
  cudaMalloc(&dy, y.size() * sizeof(bf16));
  cudaMemcpy(dx, x.data(), x.size() * sizeof(bf16), cudaMemcpyDefault);
  rms_norm<<<rows, 64>>>(dx, dy, n, 1e-5f);
  cudaMemcpy(y.data(), dy, y.size() * sizeof(bf16), cudaMemcpyDefault);
  for (int r = 0; r < rows; ++r) {
    double s = 0;
    for (int i = 0; i < n; ++i) s += double(float(x[r * n + i])) * double(float(x[r * n + i]));
    for (int i = 0; i < n; ++i) {
      double e = float(x[r * n + i]) / std::sqrt(s / n + 1e-5);
      if (std::abs(e - double(float(y[r * n + i]))) > 0.01 * std::abs(e) + 1e-6) return 1;
    }
  }
  return 0;
}
