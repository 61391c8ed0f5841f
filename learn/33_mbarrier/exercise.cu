// Reverses each tile of 512 floats: y[512 i + k] = x[512 i + 511 - k]. One block, two buffers.
#include "warpsmith/ptx/bulk.hpp"

using namespace ws::ptx;

__global__ void reverse_kernel(int tiles, const float* x, float* y) {
  __shared__ __align__(128) float buffers[2][512];
  __shared__ Mbarrier full[2];
  const int t = threadIdx.x;
  if (t == 0) {
    for (Mbarrier& barrier : full) mbarrier_init(barrier, 1);
    fence_mbarrier_init();
  }
  __syncthreads();
  const auto load = [&](int tile) {
    Mbarrier& barrier = full[tile % 2];
    mbarrier_arrive_expect_tx(barrier, sizeof buffers[0]);
    bulk_load(buffers[tile % 2], x + tile * 512, sizeof buffers[0], barrier);
  };

  if (t == 0) load(0);
  for (int tile = 0; tile < tiles; ++tile) {
    if (t == 0 && tile + 1 < tiles) load(tile + 1);
    const int parity = tile % 2;
    mbarrier_wait_parity(full[tile % 2], parity);
    for (int k = t; k < 512; k += 128) y[tile * 512 + k] = buffers[tile % 2][511 - k];
    __syncthreads();
  }
}

void reverse_tiles(int tiles, const float* x, float* y) { reverse_kernel<<<1, 128>>>(tiles, x, y); }
