// Launches and shared memory in macros, kernels that macros define, names of built-ins on the host.
#include <cstdio>
#include <cstring>
#define CHECK_CUDA(x) do { cudaError_t err = (x); if (err != cudaSuccess) { printf("%s\n", cudaGetErrorName(err)); return 1; } } while (0)
#define KERNEL_LOOP(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)
#define LAUNCH(kernel, n, ...) \
  kernel<<<((n) + 63) / 64, 64>>>(__VA_ARGS__); \
  CHECK_CUDA(cudaGetLastError())
#define DEFINE_BINARY(name, op)                                              \
  __global__ void name##_kernel(const int *a, const int *b, int *c, int n) { \
    KERNEL_LOOP(i, n) { c[i] = a[i] op b[i]; }                               \
  }
#define TILE(type, name, n) __shared__ type name[n]
#define SHARED __shared__

DEFINE_BINARY(add, +)
DEFINE_BINARY(sub, -)

__global__ void reverse(int *x) {
  TILE(int, t, 64);
  SHARED int last;
  t[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x == 0) last = 63;
  __syncthreads();
  x[threadIdx.x] = t[last - threadIdx.x];
}
int main() {
  const int n = 200;
  int a[n], b[n], c[n], *da, *db, *dc;
  for (int i = 0; i < n; ++i) { a[i] = i; b[i] = i * i; }
  CHECK_CUDA(cudaMalloc(&da, sizeof(a)));
  CHECK_CUDA(cudaMalloc(&db, sizeof(b)));
  CHECK_CUDA(cudaMalloc(&dc, sizeof(c)));
  CHECK_CUDA(cudaMemcpy(da, a, sizeof(a), cudaMemcpyHostToDevice));
  CHECK_CUDA(cudaMemcpy(db, b, sizeof(b), cudaMemcpyHostToDevice));
  LAUNCH(add_kernel, n, da, db, dc, n);
  CHECK_CUDA(cudaMemcpy(c, dc, sizeof(c), cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) if (c[i] != i + i * i) return 2;
  dim3 gridDim(4), blockDim(64);
  sub_kernel<<<gridDim, blockDim>>>(da, db, dc, n);
  CHECK_CUDA(cudaMemcpy(c, dc, sizeof(c), cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) if (c[i] != i - i * i) return 3;
  reverse<<<dim3(1), gridDim.x * 16>>>(da);
  CHECK_CUDA(cudaMemcpy(c, da, sizeof(c), cudaMemcpyDeviceToHost));
  for (int i = 0; i < 64; ++i) if (c[i] != 63 - i) return 4;
  return 0;
}
