// A histogram over the shared memory of a cluster's blocks; launches with attributes, how many clusters fit.
#include <cooperative_groups.h>
#include <cstdio>
#include <vector>
namespace cg = cooperative_groups;
__global__ void histogram(int *bins, const int nbins, const int per_block, const int *__restrict__ input, size_t n) {
  extern __shared__ int smem[];
  cg::cluster_group cluster = cg::this_cluster();
  unsigned rank = cluster.block_rank();
  for (int i = threadIdx.x; i < per_block; i += blockDim.x) smem[i] = 0;
  cluster.sync();
  for (size_t i = cg::this_grid().thread_rank(); i < n; i += blockDim.x * gridDim.x) {
    int bin = input[i] < 0 ? 0 : input[i] >= nbins ? nbins - 1 : input[i];
    int *dst = cluster.map_shared_rank(smem, bin / per_block);
    atomicAdd(dst + bin % per_block, 1);
  }
  cluster.sync();
  int *mine = bins + rank * per_block;
  for (int i = threadIdx.x; i < per_block; i += blockDim.x) atomicAdd(&mine[i], smem[i]);
}
__global__ void __cluster_dims__(2, 1, 1) pairs(int *out) {
  auto cluster = cg::this_cluster();
  if (threadIdx.x == 0) out[blockIdx.x] = cluster.block_rank() * 10 + cluster.num_blocks() + cluster.block_index().y + 100 * cluster.dim_threads().x;
  cluster.sync();
}
int main() {
  const int nbins = 64, cluster_size = 4, n = 2000, threads = 64;
  std::vector<int> h(n), want(nbins), got(nbins);
  for (int i = 0; i < n; i++) want[h[i] = i * i % nbins]++;
  int *in, *bins, *out;
  cudaMalloc(&in, n * 4); cudaMalloc(&bins, nbins * 4); cudaMalloc(&out, 16);
  cudaMemcpy(in, h.data(), n * 4, cudaMemcpyHostToDevice); cudaMemset(bins, 0, nbins * 4);
  cudaLaunchConfig_t config = {0};
  config.gridDim = 8; config.blockDim = threads; config.dynamicSmemBytes = nbins / cluster_size * sizeof(int);
  cudaLaunchAttribute attribute[1];
  attribute[0].id = cudaLaunchAttributeClusterDimension;
  attribute[0].val.clusterDim.x = cluster_size; attribute[0].val.clusterDim.y = 1; attribute[0].val.clusterDim.z = 1;
  config.numAttrs = 1; config.attrs = attribute;
  int fit = 0;
  if (cudaOccupancyMaxActiveClusters(&fit, histogram, &config) != cudaSuccess || fit < 1) return 1;
  if (cudaLaunchKernelEx(&config, histogram, bins, nbins, nbins / cluster_size, (const int *)in, (size_t)n) != cudaSuccess) return 2;
  cudaMemcpy(got.data(), bins, nbins * 4, cudaMemcpyDeviceToHost);
  if (got != want) return 3;
  pairs<<<4, 32>>>(out);
  int o[4];
  cudaMemcpy(o, out, 16, cudaMemcpyDeviceToHost);
  printf("%d clusters fit: %d %d %d %d\n", fit, o[0], o[1], o[2], o[3]);
  return o[0] != 6402 || o[1] != 6412 || o[2] != 6402;
}
