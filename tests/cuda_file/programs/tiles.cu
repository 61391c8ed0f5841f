// order: forward
// (which of the lanes that may come a coalesced group has is the order's to say)
// Tiles of a warp, scans, votes, matches; a group passed to a function.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cstdio>
namespace cg = cooperative_groups;
__device__ int reduce_sum(cg::thread_group g, int *temp, int val) {
  int lane = g.thread_rank();
  for (int i = g.size() / 2; i > 0; i /= 2) {
    temp[lane] = val;
    g.sync();
    if (lane < i) val += temp[lane + i];
    g.sync();
  }
  return val;
}
template <int tile_sz>
__device__ int tile_sum(cg::thread_block_tile<tile_sz> g, int val) {
  for (int i = g.size() / 2; i > 0; i /= 2) val += g.shfl_down(val, i);
  return val;
}
__global__ void test(int *out) {
  extern __shared__ int temp[];
  auto g = cg::this_thread_block();
  int r = reduce_sum(g, temp, g.thread_rank());
  if (g.thread_rank() == 0) out[0] = r;
  auto tile16 = cg::tiled_partition<16>(g);
  int s = tile_sum<16>(tile16, threadIdx.x);
  if (tile16.thread_rank() == 0) out[1 + tile16.meta_group_rank()] = s;
  auto tile32 = cg::tiled_partition<32>(cg::this_thread_block());
  int scanned = cg::inclusive_scan(tile32, 1);
  int before = cg::exclusive_scan(tile32, 2, cg::plus<int>());
  unsigned odd = tile32.ballot(threadIdx.x & 1);
  unsigned same = __match_any_sync(0xffffffff, threadIdx.x % 4);
  bool any = __any_sync(~0u, threadIdx.x == 5), all = __all_sync(~0u, threadIdx.x < 64);
  unsigned max = __reduce_max_sync(~0u, threadIdx.x);
  int least = cg::reduce(tile32, (int)threadIdx.x, cg::less<int>());
  int bad = scanned != tile32.thread_rank() + 1 || before != 2 * tile32.thread_rank() || odd != 0xAAAAAAAA ||
            same != 0x11111111u << threadIdx.x % 4 || any != (threadIdx.x < 32) || !all || max != (threadIdx.x | 31) || least != (threadIdx.x & ~31);
  if (__syncthreads_or(bad)) out[5] = 1;
  if (__syncthreads_count(threadIdx.x % 3 == 0) != 22) out[5] = 2;
  if (threadIdx.x % 2) {
    cg::coalesced_group active = cg::coalesced_threads();
    if (active.size() != 16 || active.shfl(threadIdx.x, 0) != (threadIdx.x & ~31) + 1) out[5] = 3;
  }
  unsigned mask = __activemask();
  if (__popc(mask) != 32) out[5] = 4;
}
int main() {
  int h[6], *d;
  cudaMalloc(&d, sizeof h);
  cudaMemset(d, 0, sizeof h);
  test<<<1, 64, 64 * sizeof(int)>>>(d);
  cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
  printf("%d %d %d %d %d %d\n", h[0], h[1], h[2], h[3], h[4], h[5]);
  return h[0] == 2016 && h[1] == 120 && h[2] == 376 && h[4] == 888 && h[5] == 0 ? 0 : 1;
}
