// sums[row] = the sum of a row of 1000 elements, by a cluster of two blocks.
#include "warpsmith/ptx/cluster.hpp"

using namespace ws::ptx;

__global__ void __cluster_dims__(2, 1, 1) sum_kernel(const float* x, float* sums) {
  __shared__ float partial[128];
  const int t = threadIdx.x;
  const int row = blockIdx.x / 2;
  const int rank = blockIdx.x % 2;
  float sum = 0;
  for (int i = rank * 500 + t; i < rank * 500 + 500; i += 128) sum += x[row * 1000 + i];
  partial[t] = sum;
  __syncthreads();
  for (int distance = 64; distance > 0; distance /= 2) {
    if (t < distance) partial[t] += partial[t + distance];
    __syncthreads();
  }

  cluster_sync();
  if (rank == 0 && t == 0) {
    const uint32_t other = map_shared_rank(&partial[0], 1);
    sums[row] = partial[0] + ld_shared_cluster<float>(other);
  }
  cluster_sync();  // block 1 stays until block 0 has read
}

void row_sums(int rows, const float* x, float* sums) { sum_kernel<<<2 * rows, 128>>>(x, sums); }
