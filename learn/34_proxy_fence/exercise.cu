// Reverses each tile of 512 floats and negates it: y[512 i + k] = -x[512 i + 511 - k]. A block a
// tile; the result is stored by a bulk copy.
#include "warpsmith/ptx/bulk.hpp"

using namespace ws::ptx;

__global__ void reverse_kernel(const float* x, float* y) {
  __shared__ __align__(128) float buffer[512];
  const int t = threadIdx.x;
  const int start = blockIdx.x * 512;
  for (int k = t; k < 512; k += 128) buffer[511 - k] = -x[start + k];
  __syncthreads();
  if (t == 0) {
    bulk_store(y + start, buffer, sizeof buffer);
    bulk_commit_group();
    bulk_wait_group_read<0>();
  }
}

void reverse_tiles(int tiles, const float* x, float* y) { reverse_kernel<<<tiles, 128>>>(x, y); }
