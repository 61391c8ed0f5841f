// The classic ladder of reductions, templates over the block's size, volatile for the last warp.
#include <cstdio>
#include <vector>

template <unsigned int blockSize>
__device__ void warpReduce(volatile int *sdata, unsigned int tid) {
  if (blockSize >= 64) { sdata[tid] += sdata[tid + 32]; __syncwarp(); }
  if (blockSize >= 32) { int v = sdata[tid + 16]; __syncwarp(); sdata[tid] += v; __syncwarp(); }
  if (blockSize >= 16) { int v = sdata[tid + 8]; __syncwarp(); sdata[tid] += v; __syncwarp(); }
  if (blockSize >= 8) { int v = sdata[tid + 4]; __syncwarp(); sdata[tid] += v; __syncwarp(); }
  if (blockSize >= 4) { int v = sdata[tid + 2]; __syncwarp(); sdata[tid] += v; __syncwarp(); }
  if (blockSize >= 2) { int v = sdata[tid + 1]; __syncwarp(); sdata[tid] += v; __syncwarp(); }
}

__global__ void reduce0(int *g_idata, int *g_odata) {
  extern __shared__ int sdata[];
  unsigned int tid = threadIdx.x;
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  sdata[tid] = g_idata[i];
  __syncthreads();
  for (unsigned int s = 1; s < blockDim.x; s *= 2) {
    if (tid % (2 * s) == 0) sdata[tid] += sdata[tid + s];
    __syncthreads();
  }
  if (tid == 0) g_odata[blockIdx.x] = sdata[0];
}

template <unsigned int blockSize>
__global__ void reduce6(int *g_idata, int *g_odata, unsigned int n) {
  extern __shared__ int sdata[];
  unsigned int tid = threadIdx.x;
  unsigned int i = blockIdx.x * (blockSize * 2) + tid;
  unsigned int gridSize = blockSize * 2 * gridDim.x;
  int sum = 0;
  while (i < n) {
    sum += g_idata[i];
    if (i + blockSize < n) sum += g_idata[i + blockSize];
    i += gridSize;
  }
  sdata[tid] = sum;
  __syncthreads();
  if (blockSize >= 512) { if (tid < 256) { sdata[tid] += sdata[tid + 256]; } __syncthreads(); }
  if (blockSize >= 256) { if (tid < 128) { sdata[tid] += sdata[tid + 128]; } __syncthreads(); }
  if (blockSize >= 128) { if (tid < 64) { sdata[tid] += sdata[tid + 64]; } __syncthreads(); }
  if (tid < 32) warpReduce<blockSize>(sdata, tid);
  if (tid == 0) g_odata[blockIdx.x] = sdata[0];
}

int main() {
  const int n = 4096;
  std::vector<int> h(n);
  long long expected = 0;
  for (int i = 0; i < n; ++i) expected += h[i] = i % 17;
  int *in, *out;
  cudaMalloc(&in, n * sizeof(int));
  cudaMalloc(&out, 64 * sizeof(int));
  cudaMemcpy(in, h.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  const int threads = 128, blocks = n / threads;
  reduce0<<<blocks, threads, threads * sizeof(int)>>>(in, out);
  int parts[64];
  cudaMemcpy(parts, out, blocks * sizeof(int), cudaMemcpyDeviceToHost);
  long long sum = 0;
  for (int b = 0; b < blocks; ++b) sum += parts[b];
  printf("%lld %lld\n", sum, expected);
  if (sum != expected) return 1;
  switch (threads) {
    case 512: reduce6<512><<<4, threads, threads * sizeof(int)>>>(in, out, n); break;
    case 128: reduce6<128><<<4, threads, threads * sizeof(int)>>>(in, out, n); break;
  }
  cudaMemcpy(parts, out, 4 * sizeof(int), cudaMemcpyDeviceToHost);
  sum = 0;
  for (int b = 0; b < 4; ++b) sum += parts[b];
  printf("%lld %lld\n", sum, expected);
  return sum == expected ? 0 : 1;
}
