// Several arrays in one block of dynamic shared memory, more than 48 KB after asking for it.
#include <cstdio>
extern __shared__ __align__(16) unsigned char global_scratch[];
template <typename T>
__global__ void sort_pairs(T *keys, int *values, int n) {
  extern __shared__ __align__(sizeof(double)) char smem[];
  T *k = reinterpret_cast<T *>(smem);
  int *v = (int *)&k[n];
  bool *odd = (bool *)(v + n);
  int t = threadIdx.x;
  for (int i = t; i < n; i += blockDim.x) { k[i] = keys[i]; v[i] = values[i]; odd[i] = false; }
  __syncthreads();
  for (int step = 0; step < n; ++step) {
    for (int i = 2 * t + (step & 1); i + 1 < n; i += 2 * blockDim.x) {
      if (k[i] > k[i + 1]) {
        T a = k[i]; k[i] = k[i + 1]; k[i + 1] = a;
        int b = v[i]; v[i] = v[i + 1]; v[i + 1] = b;
        odd[i] = true;
      }
    }
    __syncthreads();
  }
  for (int i = t; i < n; i += blockDim.x) { keys[i] = k[i]; values[i] = v[i]; }
}
__global__ void large(int *out, int n) {
  int *s = (int *)global_scratch;
  for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = i;
  __syncthreads();
  if (threadIdx.x < 32) out[threadIdx.x] = s[n - 1 - threadIdx.x];
}
int main() {
  const int n = 40;
  double k[n];
  int v[n];
  for (int i = 0; i < n; ++i) { k[i] = (i * 17) % n; v[i] = i; }
  double *dk;
  int *dv;
  cudaMalloc(&dk, sizeof k);
  cudaMalloc(&dv, sizeof v);
  cudaMemcpy(dk, k, sizeof k, cudaMemcpyHostToDevice);
  cudaMemcpy(dv, v, sizeof v, cudaMemcpyHostToDevice);
  sort_pairs<double><<<1, 32, n * (sizeof(double) + sizeof(int) + 1)>>>(dk, dv, n);
  cudaMemcpy(k, dk, sizeof k, cudaMemcpyDeviceToHost);
  cudaMemcpy(v, dv, sizeof v, cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; ++i) if (k[i] != i || (v[i] * 17) % n != i) return 1;
  const int words = 25000;
  large<<<1, 256, words * 4>>>(dv, words);
  if (cudaGetLastError() == cudaSuccess) return 2;
  cudaFuncSetAttribute(large, cudaFuncAttributeMaxDynamicSharedMemorySize, words * 4);
  large<<<1, 256, words * 4>>>(dv, words);
  if (cudaGetLastError() != cudaSuccess) return 3;
  cudaMemcpy(v, dv, 32 * 4, cudaMemcpyDeviceToHost);
  return v[0] == words - 1 && v[31] == words - 32 ? 0 : 4;
}
