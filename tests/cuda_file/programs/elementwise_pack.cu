// output: PASS
// Kernels as the collections write them: macros that look at eight halves as one float4.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdio.h>

#include <vector>

#define FLOAT4(value) (reinterpret_cast<float4*>(&(value))[0])
#define HALF2(value) (reinterpret_cast<half2*>(&(value))[0])
#define LDST128BITS(value) (reinterpret_cast<float4*>(&(value))[0])

__global__ void relu_f32x4_kernel(float* x, float* y, int N) {
  int idx = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (idx < N) {
    float4 reg_x = FLOAT4(x[idx]);
    float4 reg_y;
    reg_y.x = fmaxf(0.0f, reg_x.x);
    reg_y.y = fmaxf(0.0f, reg_x.y);
    reg_y.z = fmaxf(0.0f, reg_x.z);
    reg_y.w = fmaxf(0.0f, reg_x.w);
    FLOAT4(y[idx]) = reg_y;
  }
}

__global__ void relu_f16x8_pack_kernel(half* x, half* y, int N) {
  int idx = 8 * (blockIdx.x * blockDim.x + threadIdx.x);
  const half2 z2 = {__float2half(0.0f), __float2half(0.0f)};
  half pack_x[8], pack_y[8];
  LDST128BITS(pack_x[0]) = LDST128BITS(x[idx]);
#pragma unroll
  for (int i = 0; i < 8; i += 2) {
    HALF2(pack_y[i]) = __hmax2(HALF2(pack_x[i]), z2);
  }
  if ((idx + 7) < N) {
    LDST128BITS(y[idx]) = LDST128BITS(pack_y[0]);
  }
}

int main() {
  const int n = 2048;
  std::vector<float> x(n), y(n);
  std::vector<half> hx(n), hy(n);
  for (int i = 0; i < n; ++i) {
    x[i] = (i % 17) - 8.0f;
    hx[i] = __float2half(x[i]);
  }
  float *dx, *dy;
  half *dhx, *dhy;
  cudaMalloc(&dx, n * sizeof(float));
  cudaMalloc(&dy, n * sizeof(float));
  cudaMalloc(&dhx, n * sizeof(half));
  cudaMalloc(&dhy, n * sizeof(half));
  cudaMemcpy(dx, x.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(dhx, hx.data(), n * sizeof(half), cudaMemcpyHostToDevice);
  relu_f32x4_kernel<<<n / 1024, 256>>>(dx, dy, n);
  relu_f16x8_pack_kernel<<<n / 1024, 128>>>(dhx, dhy, n);
  cudaMemcpy(y.data(), dy, n * sizeof(float), cudaMemcpyDeviceToHost);
  cudaMemcpy(hy.data(), dhy, n * sizeof(half), cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (int i = 0; i < n; ++i) {
    const float expected = x[i] > 0 ? x[i] : 0;
    wrong += y[i] != expected || __half2float(hy[i]) != expected;
  }
  printf("%s\n", wrong ? "FAIL" : "PASS");
  return wrong;
}
