// A cooperative launch whose blocks wait for each other.
#include <cooperative_groups.h>
#include <cstdio>
#include "cuda_runtime.h"
#include "device_launch_parameters.h"
using namespace cooperative_groups;
__global__ void steps(int *a, int *b, int n) {
  grid_group grid = this_grid();
  for (int s = 0; s < 3; ++s) {
    for (int i = grid.thread_rank(); i < n; i += grid.size()) b[i] = a[(i + 1) % n] + 1;
    grid.sync();
    for (int i = grid.thread_rank(); i < n; i += grid.size()) a[i] = b[i];
    sync(grid);
  }
}
int main() {
  int n = 500, h[500], supported = 0, blocksPerSm = 0;
  cudaDeviceGetAttribute(&supported, cudaDevAttrCooperativeLaunch, 0);
  if (!supported) return 3;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocksPerSm, steps, 128, 0);
  for (int i = 0; i < n; ++i) h[i] = i;
  int *a, *b;
  cudaMalloc(&a, sizeof(h));
  cudaMalloc(&b, sizeof(h));
  cudaMemcpy(a, h, sizeof(h), cudaMemcpyHostToDevice);
  void *args[] = {(void *)&a, (void *)&b, (void *)&n};
  dim3 dimBlock(128, 1, 1), dimGrid(3, 1, 1);
  cudaError_t e = cudaLaunchCooperativeKernel((void *)steps, dimGrid, dimBlock, args, 0, NULL);
  if (e != cudaSuccess || blocksPerSm < 1) return 2;
  cudaMemcpy(h, a, sizeof(h), cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; ++i) if (h[i] != (i + 3) % n + 3) return 1;
  return 0;
}
