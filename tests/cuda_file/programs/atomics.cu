// Every kind of atomic; a lock; a float maximum by compare-and-swap.
#include <cstdio>
__device__ __forceinline__ float atomicMaxFloat(float *addr, float value) {
  float old;
  old = (value >= 0) ? __int_as_float(atomicMax((int *)addr, __float_as_int(value)))
                     : __uint_as_float(atomicMin((unsigned int *)addr, __float_as_uint(value)));
  return old;
}
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 600
#else
__device__ double atomicAdd(double *address, double val) { return 0; }
#endif
__device__ double atomicMulDouble(double *address, double val) {
  unsigned long long int *address_as_ull = (unsigned long long int *)address;
  unsigned long long int old = *address_as_ull, assumed;
  do {
    assumed = old;
    old = atomicCAS(address_as_ull, assumed, __double_as_longlong(val * __longlong_as_double(assumed)));
  } while (assumed != old);
  return __longlong_as_double(old);
}
__global__ void all(int *i, unsigned *u, unsigned long long *l, float *f, double *d) {
  int t = threadIdx.x;
  atomicAdd(i, 1);
  atomicSub(i + 1, 2);
  atomicMin(i + 2, t);
  atomicMax(i + 3, t);
  atomicAnd(u, ~(1u << t));
  atomicOr(u + 1, 1u << t);
  atomicXor(u + 2, 1u << t);
  atomicInc(u + 3, 9);
  atomicDec(u + 4, 9);
  atomicExch(u + 5, 77u);
  atomicAdd(l, 1ull << 33);
  atomicMax(l + 1, (unsigned long long)t);
  atomicAdd(f, 0.5f);
  atomicMaxFloat(f + 1, t - 20.0f);
  atomicAdd(d, 0.25);
}
__global__ void locked(int *lock, volatile int *counter) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) { }
    __threadfence();
    *counter = *counter + 1;
    __threadfence();
    atomicExch(lock, 0);
  }
}
__global__ void factorial(double *x) { atomicMulDouble(x, threadIdx.x + 1.0); }
int main() {
  int hi[4] = {0, 0, 100, -100}, *i;
  unsigned hu[6] = {~0u, 0, 0, 0, 5, 0}, *u;
  unsigned long long hl[2] = {0, 0}, *l;
  float hf[2] = {0, -1000.0f}, *f;
  double hd[2] = {0, 1}, *d;
  cudaMalloc(&i, sizeof hi); cudaMemcpy(i, hi, sizeof hi, cudaMemcpyHostToDevice);
  cudaMalloc(&u, sizeof hu); cudaMemcpy(u, hu, sizeof hu, cudaMemcpyHostToDevice);
  cudaMalloc(&l, sizeof hl); cudaMemcpy(l, hl, sizeof hl, cudaMemcpyHostToDevice);
  cudaMalloc(&f, sizeof hf); cudaMemcpy(f, hf, sizeof hf, cudaMemcpyHostToDevice);
  cudaMalloc(&d, sizeof hd); cudaMemcpy(d, hd, sizeof hd, cudaMemcpyHostToDevice);
  all<<<1, 32>>>(i, u, l, f, d);
  factorial<<<1, 10>>>(d + 1);
  cudaMemcpy(hi, i, sizeof hi, cudaMemcpyDeviceToHost);
  cudaMemcpy(hu, u, sizeof hu, cudaMemcpyDeviceToHost);
  cudaMemcpy(hl, l, sizeof hl, cudaMemcpyDeviceToHost);
  cudaMemcpy(hf, f, sizeof hf, cudaMemcpyDeviceToHost);
  cudaMemcpy(hd, d, sizeof hd, cudaMemcpyDeviceToHost);
  if (hi[0] != 32 || hi[1] != -64 || hi[2] != 0 || hi[3] != 31) return 1;
  if (hu[0] != 0 || hu[1] != ~0u || hu[2] != ~0u || hu[3] != 2 || hu[4] != 3 || hu[5] != 77) { printf("%u %u\n", hu[3], hu[4]); return 2; }
  if (hl[0] != 32ull << 33 || hl[1] != 31 || hf[0] != 16.0f || hf[1] != 11.0f || hd[0] != 8.0 || hd[1] != 3628800.0) return 3;
  cudaMemset(i, 0, sizeof hi);
  locked<<<20, 32>>>(i, i + 1);
  cudaMemcpy(hi, i, sizeof hi, cudaMemcpyDeviceToHost);
  return hi[1] == 20 ? 0 : 4;
}
