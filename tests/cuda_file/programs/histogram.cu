// Histograms: atomics in global memory, privatized in shared memory, aggregated by the warp.
#include <cstdio>
#include <cstring>
#include <vector>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#define NUM_BINS 64

__global__ void histogram_global(const unsigned char *data, unsigned int *bins, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
    atomicAdd(&bins[data[i] % NUM_BINS], 1);
}
__global__ void histogram_shared(const unsigned char *data, unsigned int *bins, int n) {
  __shared__ unsigned int private_bins[NUM_BINS];
  for (int b = threadIdx.x; b < NUM_BINS; b += blockDim.x) private_bins[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
    atomicAdd(&(private_bins[data[i] % NUM_BINS]), 1u);
  __syncthreads();
  for (int b = threadIdx.x; b < NUM_BINS; b += blockDim.x)
    if (private_bins[b] > 0) atomicAdd(bins + b, private_bins[b]);
}
__global__ void count_even(const unsigned char *data, int *count, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && data[i] % 2 == 0) {
    auto active = cg::coalesced_threads();
    if (active.thread_rank() == 0) atomicAdd(count, active.size());
  }
}

int main() {
  const int n = 5000;
  std::vector<unsigned char> data(n);
  unsigned expected[NUM_BINS] = {};
  int even = 0;
  for (int i = 0; i < n; ++i) {
    data[i] = (i * 31 + i / 7) & 0xFF;
    ++expected[data[i] % NUM_BINS];
    even += data[i] % 2 == 0;
  }
  unsigned char *d;
  unsigned int *bins, h[NUM_BINS];
  int *count;
  cudaMalloc(&d, n);
  cudaMalloc(&bins, sizeof(h));
  cudaMalloc(&count, sizeof(int));
  cudaMemcpy(d, data.data(), n, cudaMemcpyHostToDevice);
  for (int variant = 0; variant < 2; ++variant) {
    cudaMemset(bins, 0, sizeof(h));
    variant == 0 ? histogram_global<<<4, 128>>>(d, bins, n) : histogram_shared<<<4, 128>>>(d, bins, n);
    cudaMemcpy(h, bins, sizeof(h), cudaMemcpyDeviceToHost);
    if (memcmp(h, expected, sizeof(h)) != 0) return 1 + variant;
  }
  cudaMemset(count, 0, sizeof(int));
  count_even<<<(n + 255) / 256, 256>>>(d, count, n);
  int found = 0;
  cudaMemcpy(&found, count, sizeof(int), cudaMemcpyDeviceToHost);
  printf("%d even, %d found\n", even, found);
  return found == even ? 0 : 3;
}
