// Arithmetic in half2 and bfloat16: intrinsics, operators, comparisons, conversions, packed loads, a dot product; bytes by dp4a.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cmath>
#include <cstdio>
__global__ void axpy_h2(int n, half a, const half *x, half *y) {
  int start = threadIdx.x + blockDim.x * blockIdx.x, stride = blockDim.x * gridDim.x;
  int n2 = n / 2;
  const half2 *x2 = (const half2 *)x;
  half2 *y2 = (half2 *)y;
  for (int i = start; i < n2; i += stride) y2[i] = __hfma2(__halves2half2(a, a), x2[i], y2[i]);
  if (start == 0 && (n % 2)) y[n - 1] = __hfma(a, x[n - 1], y[n - 1]);
}
__global__ void dot(const half2 *a, const half2 *b, int n, float *out) {
  half2 sum = __float2half2_rn(0.f);
  for (int i = threadIdx.x; i < n; i += 32) sum = __hadd2(sum, __hmul2(a[i], b[i]));
  float s = __low2float(sum) + __high2float(sum);
  for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
  half2 both = __shfl_down_sync(0xffffffff, sum, 1);
  if (threadIdx.x == 0) { out[0] = s; out[1] = __half2float(__hadd(both.x, __high2half(both))); }
}
__global__ void gelu(const __nv_bfloat16 *x, __nv_bfloat16 *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = __bfloat162float(x[i]);
  y[i] = __float2bfloat16(0.5f * v * (1.f + tanhf(0.79788456f * (v + 0.044715f * v * v * v))));
  if (__hlt(y[i], __float2bfloat16(0.f))) y[i] = __hneg(y[i]);
  y[i] = __hmin(y[i], __nv_bfloat16(1.5f));
}
__global__ void several(float *out, half *h, __nv_bfloat162 *b, const unsigned *bytes) {
  half one = 1.0f, three = __float2half(3.0f);
  h[0] = one / three; h[0] += one; h[1] = hsqrt(three) * hexp(one); h[2] = __hgt(one, three) ? one : three;
  h[3] = __ushort_as_half(0x3C00); h[4] = __int2half_rn(7) - __float2half_rn(0.5f); ++h[4]; h[5] = -three;
  b[0] = __hadd2(b[0], __floats2bfloat162_rn(1.f, 2.f)); b[0] *= __float2bfloat162_rn(2.f);
  float2 f = __bfloat1622float2(b[0]);
  out[0] = f.x; out[1] = f.y; out[2] = float(h[4]); out[3] = __half2int_rn(h[5]);
  out[4] = __dp4a(int(bytes[0]), int(bytes[1]), 5);
  out[5] = __popc(bytes[0]) + __clz(bytes[0] | 1) + __ffs(8) + __brev(1u) / 2147483648u + __byte_perm(0x01020304, 0, 0x0123) % 256;
  out[6] = __vadd4(0x01010101u, bytes[1]) & 0xff; out[7] = __hisnan(h[0]) + __funnelshift_l(1u, 2u, 4) + __mul24(3, 4) + __umulhi(0x80000000u, 4u) + __sad(3, 7, 1u);
  int2 i2 = *reinterpret_cast<const int2 *>(bytes); out[8] = i2.y; half2 m = __hmax2(__float2half2_rn(1), make_half2(0, 2)); out[9] = float(m.x) + float(m.y);
}
int main() {
  const int n = 333;
  half *x, *y; float *out; __nv_bfloat16 *p, *q; __nv_bfloat162 *b; unsigned *bytes;
  cudaMallocManaged(&x, 2 * n); cudaMallocManaged(&y, 2 * n); cudaMallocManaged(&out, 64); cudaMallocManaged(&p, 2 * n); cudaMallocManaged(&q, 2 * n); cudaMallocManaged(&b, 4); cudaMallocManaged(&bytes, 8);
  for (int i = 0; i < n; i++) x[i] = __float2half(i % 16), y[i] = __float2half(1.f), p[i] = __float2bfloat16((i - 100) * 0.05f);
  axpy_h2<<<2, 64>>>(n, __float2half(2.f), x, y);
  dot<<<1, 32>>>((half2 *)x, (half2 *)y, 64, out);
  gelu<<<3, 128>>>(p, q, n);
  cudaDeviceSynchronize();
  float want = 0;
  for (int i = 0; i < 128; i++) want += (i % 16) * (2 * (i % 16) + 1);
  for (int i = 0; i < n; i++) if (__half2float(y[i]) != 2 * (i % 16) + 1) return 1;
  if (std::fabs(out[0] - want) > 0.01f * want) { printf("%f %f\n", out[0], want); return 2; }
  if (float(q[n - 1]) != 1.5f || std::fabs(float(q[140]) - 1.5f) > 1e-2f || float(q[90]) <= 0) { printf("%f %f %f\n", float(q[n - 1]), float(q[140]), float(q[90])); return 3; }
  b[0] = __nv_bfloat162(__float2bfloat16(3.f), __float2bfloat16(4.f)); bytes[0] = 0x01ff0203; bytes[1] = 0x02030405;
  several<<<1, 1>>>(out, x, b, bytes);
  cudaDeviceSynchronize();
  for (int i = 0; i < 10; i++) printf("%g ", out[i]);
  puts("");
  const float expected[] = {8, 12, 7.5f, -3, 5 + 3 * 5 + 2 * 4 - 3 + 2, 12 + 7 + 4 + 1 + 1, 6, 0 + 32 + 12 + 2 + 5, 0x02030405, 3};
  for (int i = 0; i < 10; i++) if (out[i] != expected[i]) { printf("%d: %g\n", i, out[i]); return 4 + i; }
}
