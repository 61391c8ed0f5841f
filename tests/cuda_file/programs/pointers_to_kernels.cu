// Kernels through pointers, in tables, as template arguments; default arguments; overloads.
#include <cstdio>
__global__ void twice(float *x, int n) { int i = threadIdx.x; if (i < n) x[i] *= 2; }
__global__ void plus_one(float *x, int n) { int i = threadIdx.x; if (i < n) x[i] += 1; }
__global__ void scale(float *x, int n, float by = 10.0f) { int i = threadIdx.x; if (i < n) x[i] *= by; }
__global__ void set(float *x, float v) { x[threadIdx.x] = v; }
__global__ void set(int *x, int v) { x[threadIdx.x] = v; }
typedef void (*Kernel)(float *, int);
struct Entry { const char *name; Kernel kernel; };
static Entry table[] = {{"twice", twice}, {"plus_one", plus_one}};
template <void (*kKernel)(float *, int)>
void run(float *x, int n) { kKernel<<<1, n>>>(x, n); }
namespace inner { namespace deep { __global__ void negate(float *x, int n) { if (threadIdx.x < n) x[threadIdx.x] = -x[threadIdx.x]; } } }
int main() {
  float h[32], *d;
  int *e, he[32];
  for (int i = 0; i < 32; ++i) h[i] = i;
  cudaMalloc(&d, sizeof h);
  cudaMalloc(&e, sizeof he);
  cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice);
  Kernel k = &twice;
  k<<<1, 32>>>(d, 32);
  (*k)<<<1, 32>>>(d, 32);
  for (const Entry &entry : table) entry.kernel<<<1, 32>>>(d, 32);
  table[1].kernel<<<1, 32, 0, 0>>>(d, 32);
  run<plus_one>(d, 32);
  scale<<<1, 32>>>(d, 32);
  scale<<<1, 32>>>(d, 32, 0.5);
  inner::deep::negate<<<1, 32>>>(d, 32);
  void *args[2];
  int n = 32;
  args[0] = &d;
  args[1] = &n;
  if (cudaLaunchKernel((const void *)plus_one, dim3(1), dim3(32), args, 0, nullptr) != cudaSuccess) return 2;
  cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 32; ++i) if (h[i] != -(i * 8 + 3) * 5.0f + 1) { printf("%d %f\n", i, h[i]); return 1; }
  set<<<1, 32>>>(d, 4.0f);
  set<<<1, 32>>>(e, 5);
  cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
  cudaMemcpy(he, e, sizeof he, cudaMemcpyDeviceToHost);
  return h[31] == 4.0f && he[31] == 5 ? 0 : 3;
}
