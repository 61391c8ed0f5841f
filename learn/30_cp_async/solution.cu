// Reverses each tile of 512 floats: y[512 i + k] = x[512 i + 511 - k]. One block, two buffers.
#include "warpsmith/ptx/cp_async.hpp"

using namespace ws::ptx;

__global__ void reverse_kernel(int tiles, const float* x, float* y) {
  __shared__ __align__(16) float buffers[2][512];
  const int t = threadIdx.x;
  const auto load = [&](int tile) {
    cp_async<16>(&buffers[tile % 2][4 * t], x + tile * 512 + 4 * t);
  };

  load(0);
  cp_async_commit_group();
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles) load(tile + 1);
    cp_async_commit_group();  // of nothing in the last round
    cp_async_wait_group<1>();
    __syncthreads();
    for (int k = t; k < 512; k += 128) y[tile * 512 + k] = buffers[tile % 2][511 - k];
    __syncthreads();
  }
}

void reverse_tiles(int tiles, const float* x, float* y) { reverse_kernel<<<1, 128>>>(tiles, x, y); }
