// Warp-aggregated atomics, a double add by compare and swap, locks, scoped atomics, lane numbers by inline PTX, clocks, assert.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
__device__ __inline__ unsigned lane_id() { unsigned r; asm volatile("mov.u32 %0, %%laneid;" : "=r"(r)); return r; }
__device__ __inline__ unsigned lanes_below() { unsigned r; asm("mov.u32 %0, %%lanemask_lt;" : "=r"(r)); return r; }
__device__ unsigned smid(void) { unsigned int r; asm volatile("mov.u32 %0, %%smid;" : "=r"(r) :: "memory"); return r; }
__device__ int take(int *counter) {
  const unsigned active = __activemask();
  const int leader = __ffs(active) - 1;
  int base = 0;
  if (lane_id() == leader) base = atomicAdd(counter, __popc(active));
  base = __shfl_sync(active, base, leader);
  return base + __popc(active & lanes_below());
}
__global__ void filter(const int *in, int n, int *out, int *count) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < n && in[i] % 3 == 0) out[take(count)] = in[i];
}
__device__ double add_double(double *address, double val) {
  unsigned long long int *as_ull = (unsigned long long int *)address;
  unsigned long long int old = *as_ull, assumed;
  do {
    assumed = old;
    old = atomicCAS(as_ull, assumed, __double_as_longlong(val + __longlong_as_double(assumed)));
  } while (assumed != old);
  return __longlong_as_double(old);
}
__device__ float max_float(float *a, float v) {
  int old = __float_as_int(*a), seen;
  do {
    seen = old;
    if (__int_as_float(seen) >= v) break;
    old = atomicCAS((int *)a, seen, __float_as_int(v));
  } while (seen != old);
  return __int_as_float(old);
}
__global__ void sums(double *d, float *most, int *many, unsigned long long *clocks) {
  __shared__ int in_block;
  long long start = clock64();
  if (threadIdx.x == 0) in_block = 0;
  __syncthreads();
  add_double(d, 0.5);
  max_float(most, float((threadIdx.x * 7 + blockIdx.x) % 64));
  atomicAdd_block(&in_block, 2);
  atomicAdd_system(&many[0], 1);
  atomicMax_block(&many[1 + blockIdx.x], threadIdx.x);
  atomicCAS_system(&many[9], 0, 5);
  asm volatile("bar.sync 0;");
  assert(in_block == 2 * blockDim.x);
  assert(smid() < 132);
  unsigned x; asm("mov.u32 %0, %%tid.x;" : "=r"(x));
  unsigned y = 0; asm volatile ("mov.u32 %0, %%ctaid.x;\n\t" : "=r"(y));
  assert(x == threadIdx.x && y == blockIdx.x && lane_id() == threadIdx.x % warpSize);
  asm volatile("membar.gl;" ::: "memory");
  unsigned long long t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  long long stop = clock64();
  if (threadIdx.x == 0) clocks[blockIdx.x] = stop - start + (t == 0);
}
struct Lock {
  int *mutex;
  Lock() { int zero = 0; cudaMalloc((void **)&mutex, sizeof(int)); cudaMemcpy(mutex, &zero, sizeof(int), cudaMemcpyHostToDevice); }
  ~Lock() {}
  __device__ void lock() { while (atomicCAS(mutex, 0, 1) != 0) { } __threadfence(); }
  __device__ void unlock() { __threadfence(); atomicExch(mutex, 0); }
};
__global__ void locked(Lock lock, int *total) {
  if (threadIdx.x == 0) { lock.lock(); *total += blockIdx.x; lock.unlock(); }
}
int main(void) {
  const int n = 500;
  int h[n], *in, *out, *count, kept = 0, *total, sum;
  for (int i = 0; i < n; i++) h[i] = (i * 7919) % 1000;
  cudaMalloc((void **)&in, sizeof(h)); cudaMalloc((void **)&out, sizeof(h)); cudaMalloc((void **)&count, sizeof(int));
  cudaMemcpy(in, h, sizeof(h), cudaMemcpyHostToDevice); cudaMemset(count, 0, sizeof(int));
  filter<<<(n + 127) / 128, 128>>>(in, n, out, count);
  int want = 0, got = 0;
  for (int i = 0; i < n; i++) if (h[i] % 3 == 0) want++;
  cudaMemcpy(&got, count, sizeof(int), cudaMemcpyDeviceToHost);
  cudaMemcpy(h, out, got * sizeof(int), cudaMemcpyDeviceToHost);
  for (int i = 0; i < got; i++) kept += h[i] % 3 == 0;
  if (want != got || kept != got) { printf("filter: %d of %d\n", got, want); return 1; }
  double *d; float *f; int *many; unsigned long long *clocks;
  cudaMallocManaged(&d, 8); cudaMallocManaged(&f, 4); cudaMallocManaged(&many, 40); cudaMallocManaged(&clocks, 64);
  *d = 0; *f = -1; for (int i = 0; i < 10; i++) many[i] = 0;
  sums<<<4, 96>>>(d, f, many, clocks);
  if (cudaDeviceSynchronize() != cudaSuccess) return 2;
  if (*d != 0.5 * 384 || *f != 63 || many[0] != 384 || many[4] != 95 || many[9] != 5) { printf("%f %f %d %d\n", *d, *f, many[0], many[4]); return 3; }
  Lock lock;
  cudaMalloc((void **)&total, sizeof(int)); cudaMemset(total, 0, sizeof(int));
  locked<<<12, 32>>>(lock, total);
  cudaMemcpy(&sum, total, sizeof(int), cudaMemcpyDeviceToHost);
  if (sum != 66) return 4;
  printf("kept %d\n", got);
  return 0;
}
