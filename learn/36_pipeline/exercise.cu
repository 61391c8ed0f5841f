// Reverses each tile of 512 floats: y[512 i + k] = x[512 i + 511 - k]. One block: four warps
// compute, the fifth copies.
#include "warpsmith/ptx/bulk.hpp"

using namespace ws::ptx;

constexpr int kConsumerWarps = 4;
constexpr int kBuffers = 2;

__global__ void reverse_kernel(int tiles, const float* x, float* y) {
  __shared__ __align__(128) float buffers[kBuffers][512];
  __shared__ Mbarrier full[kBuffers];
  __shared__ Mbarrier empty[kBuffers];
  const int t = threadIdx.x;
  if (t == 0) {
    for (Mbarrier& barrier : full) mbarrier_init(barrier, 1);
    for (Mbarrier& barrier : empty) mbarrier_init(barrier, 32 * kConsumerWarps);
    fence_mbarrier_init();
  }
  __syncthreads();

  if (t / 32 == kConsumerWarps) {  // the producer
    if (t % 32 != 0) return;
    for (int tile = 0; tile < tiles; ++tile) {
      const int at = tile % kBuffers;
      const int parity = tile / kBuffers % 2;
      mbarrier_wait_parity(empty[at], 1 - parity);
      mbarrier_arrive_expect_tx(full[at], sizeof buffers[at]);
      bulk_load(buffers[at], x + tile * 512, sizeof buffers[at], full[at]);
    }
    return;
  }

  for (int tile = 0; tile < tiles; ++tile) {
    const int at = tile % kBuffers;
    const int parity = tile / kBuffers % 2;
    mbarrier_wait_parity(full[at], parity);
    for (int k = t; k < 512; k += 32 * kConsumerWarps) y[tile * 512 + k] = buffers[at][511 - k];
    __syncwarp();
    if (t % 32 == 0) mbarrier_arrive(empty[at]);
  }
}

void reverse_tiles(int tiles, const float* x, float* y) {
  reverse_kernel<<<1, 32 * (kConsumerWarps + 1)>>>(tiles, x, y);
}
