// Cooperative groups as their guide has them: cg::reduce, scans, tiles, async copies with layouts.
#include <climits>
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cstdio>
#include <numeric>
#include <vector>
namespace cg = cooperative_groups;

__global__ void sum_all(const int* in, int n, int* total, int* largest) {
  cg::thread_block block = cg::this_thread_block();
  auto tile = cg::tiled_partition<32>(block);
  __shared__ int partial[32];
  int mine = 0, most = INT_MIN;
  for (int i = blockIdx.x * block.size() + block.thread_rank(); i < n; i += gridDim.x * block.size()) {
    mine += in[i];
    most = max(most, in[i]);
  }
  int warp = cg::reduce(tile, mine, cg::plus<int>());
  int warp_most = cg::reduce(tile, most, cg::greater<int>());
  if (tile.thread_rank() == 0) {
    partial[tile.meta_group_rank()] = warp;
    atomicMax(largest, warp_most);
  }
  cg::sync(block);
  if (tile.meta_group_rank() == 0) {
    int v = tile.thread_rank() < tile.meta_group_size() ? partial[tile.thread_rank()] : 0;
    v = cg::reduce(tile, v, [](int a, int b) { return a + b; });
    cg::invoke_one(tile, [&] { atomicAdd(total, v); });
  }
}

__global__ void block_scan(const int* in, int* out, int n) {
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  extern __shared__ int sums[];
  const int i = block.thread_rank();
  int v = i < n ? in[i] : 0;
  int before = cg::exclusive_scan(warp, v, cg::plus<int>());
  if (warp.thread_rank() == warp.num_threads() - 1) sums[warp.meta_group_rank()] = before + v;
  block.sync();
  if (warp.meta_group_rank() == 0) {
    int s = warp.thread_rank() < warp.meta_group_size() ? sums[warp.thread_rank()] : 0;
    int t = cg::inclusive_scan(warp, s);
    if (warp.thread_rank() < warp.meta_group_size()) sums[warp.thread_rank()] = t - s;
  }
  block.sync();
  if (i < n) out[i] = sums[warp.meta_group_rank()] + before;
}

__global__ void double_buffer(const float* in, float* out, int tiles) {
  auto block = cg::this_thread_block();
  __shared__ float stage[2][64];
  cg::memcpy_async(block, stage[0], in, sizeof(float) * 64);
  for (int t = 0; t < tiles; ++t) {
    if (t + 1 < tiles) {
      cg::memcpy_async(block, stage[(t + 1) % 2], 64, in + (t + 1) * 64, 64);
      cg::wait_prior<1>(block);
    } else {
      cg::wait(block);
    }
    out[t * 64 + block.thread_rank()] = 2 * stage[t % 2][63 - block.thread_rank()];
    block.sync();
  }
}

__global__ void halves(int* out) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  bool odd = warp.thread_rank() % 2;
  auto mine = cg::binary_partition(warp, odd);
  out[warp.thread_rank()] = cg::reduce(mine, int(warp.thread_rank()), cg::plus<int>());
  warp.sync();
  auto active = cg::coalesced_threads();
  if (active.thread_rank() == 0) out[32] = active.size();
  auto by_three = cg::labeled_partition(warp, int(warp.thread_rank()) / 12);
  out[33 + warp.thread_rank()] = by_three.size();
}

int main() {
  const int n = 1000;
  int *in, *total, *largest, *out;
  cudaMallocManaged(&in, n * sizeof(int));
  cudaMallocManaged(&total, sizeof(int));
  cudaMallocManaged(&largest, sizeof(int));
  cudaMallocManaged(&out, n * sizeof(int));
  for (int i = 0; i < n; ++i) in[i] = (i * 37) % 101 - 50;
  *total = 0, *largest = INT_MIN;
  sum_all<<<3, 128>>>(in, n, total, largest);
  block_scan<<<1, 256, 8 * sizeof(int)>>>(in, out, 250);
  if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  if (*total != std::accumulate(in, in + n, 0) || *largest != 50) return 2;
  for (int i = 0, s = 0; i < 250; s += in[i++])
    if (out[i] != s) return 3;
  float *f, *g;
  cudaMallocManaged(&f, 256 * sizeof(float));
  cudaMallocManaged(&g, 256 * sizeof(float));
  for (int i = 0; i < 256; ++i) f[i] = i;
  double_buffer<<<1, 64>>>(f, g, 4);
  halves<<<1, 32>>>(out);
  if (cudaDeviceSynchronize() != cudaSuccess) return 4;
  for (int i = 0; i < 256; ++i)
    if (g[i] != 2 * (i / 64 * 64 + 63 - i % 64)) return 5;
  for (int i = 0; i < 32; ++i)
    if (out[i] != (i % 2 ? 256 : 240) || out[33 + i] != (i < 24 ? 12 : 8)) return 6;
  if (out[32] != 32) return 7;
  printf("groups: right\n");
}
