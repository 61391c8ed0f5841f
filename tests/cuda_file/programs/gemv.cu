// A warp a row of the matrix.
#include <stdio.h>
template <typename T, int WARPS>
__global__ __launch_bounds__(WARPS * 32) void gemv(const T *__restrict__ a, const T *__restrict__ x, T *y, int m, int k) {
  const int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= m) return;
  T sum = 0;
  #pragma unroll 4
  for (int i = threadIdx.x; i < k; i += 32) sum += a[row * k + i] * __ldg(&x[i]);
  for (int offset = warpSize / 2; offset > 0; offset /= 2) sum += __shfl_down_sync(0xFFFFFFFF, sum, offset);
  if (threadIdx.x == 0) y[row] = sum;
}
template <typename T> int test() {
  const int m = 30, k = 128;
  static T a[m * k], x[k], y[m];
  for (int i = 0; i < m * k; i++) a[i] = i % 13;
  for (int i = 0; i < k; i++) x[i] = i % 3 - 1;
  T *da, *dx, *dy;
  cudaMalloc(&da, sizeof a); cudaMalloc(&dx, sizeof x); cudaMalloc(&dy, sizeof y);
  cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice); cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice);
  dim3 block(32, 4), grid((m + 3) / 4);
  gemv<T, 4><<<grid, block>>>(da, dx, dy, m, k);
  cudaMemcpy(y, dy, sizeof y, cudaMemcpyDeviceToHost);
  for (int r = 0; r < m; r++) { T e = 0; for (int i = 0; i < k; i++) e += a[r * k + i] * x[i]; if (e != y[r]) return 1; }
  return 0;
}
int main() { return test<float>() + test<double>() + test<int>(); }
