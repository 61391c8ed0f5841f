// half and half2, packed loads, conversions, hfma2.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdio.h>
#define HALF2(value) (reinterpret_cast<half2*>(&(value))[0])
#define LDST128BITS(value) (reinterpret_cast<float4*>(&(value))[0])
__global__ void add_f16x2(half* a, half* b, half* c, int N) {
  int idx = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (idx < N) {
    half2 reg_a = HALF2(a[idx]), reg_b = HALF2(b[idx]), reg_c;
    reg_c.x = __hadd(reg_a.x, reg_b.x);
    reg_c.y = __hadd(reg_a.y, reg_b.y);
    HALF2(c[idx]) = reg_c;
  }
}
__global__ void add_f16x8_pack(half* a, half* b, half* c, int N) {
  int idx = 8 * (blockIdx.x * blockDim.x + threadIdx.x);
  half pack_a[8], pack_b[8], pack_c[8];
  if (idx + 7 < N) {
    LDST128BITS(pack_a[0]) = LDST128BITS(a[idx]);
    LDST128BITS(pack_b[0]) = LDST128BITS(b[idx]);
#pragma unroll
    for (int i = 0; i < 8; i += 2) HALF2(pack_c[i]) = __hadd2(HALF2(pack_a[i]), HALF2(pack_b[i]));
    LDST128BITS(c[idx]) = LDST128BITS(pack_c[0]);
  }
}
__global__ void axpy(const __half2* x, __half2* y, __half a, int n) {
  int i = threadIdx.x;
  if (i < n) y[i] = __hfma2(__half2half2(a), x[i], y[i]);
}
int main() {
  const int N = 512;
  half h_a[N], h_b[N], h_c[N];
  for (int i = 0; i < N; ++i) { h_a[i] = __float2half(i * 0.5f); h_b[i] = __float2half(1.0f); }
  half *a, *b, *c;
  cudaMalloc(&a, sizeof(h_a)); cudaMalloc(&b, sizeof(h_b)); cudaMalloc(&c, sizeof(h_c));
  cudaMemcpy(a, h_a, sizeof(h_a), cudaMemcpyHostToDevice);
  cudaMemcpy(b, h_b, sizeof(h_b), cudaMemcpyHostToDevice);
  for (int v = 0; v < 2; ++v) {
    cudaMemset(c, 0, sizeof(h_c));
    if (v) add_f16x8_pack<<<1, 64>>>(a, b, c, N); else add_f16x2<<<2, 128>>>(a, b, c, N);
    cudaMemcpy(h_c, c, sizeof(h_c), cudaMemcpyDeviceToHost);
    for (int i = 0; i < N; ++i) if (__half2float(h_c[i]) != __half2float(h_a[i]) + 1.0f) return 1;
  }
  axpy<<<1, 256>>>((__half2*)a, (__half2*)b, __float2half(2.0f), N / 2);
  cudaMemcpy(h_c, b, sizeof(h_c), cudaMemcpyDeviceToHost);
  for (int i = 0; i < N; ++i) if ((float)h_c[i] != 2.0f * (float)h_a[i] + 1.0f) { printf("%d %f\n", i, (float)h_c[i]); return 2; }
  return 0;
}
