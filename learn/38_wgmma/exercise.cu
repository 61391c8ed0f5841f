// C = A B^T in half precision: a block of 128 threads a 64 x 64 tile of C. A is m x 64, B is n x
// 64, both in rows; m and n are multiples of 64.
#include "warpsmith/ptx/fence.hpp"
#include "warpsmith/ptx/wgmma.hpp"

using namespace ws::ptx;

// Swizzled tiles begin at a multiple of 1024 bytes.
struct alignas(1024) Tile {
  ws::half elements[64 * 64];
};

// 64 rows of 128 bytes, their 16-byte chunks swizzled as the 128-byte pattern has it.
__device__ void load_tile(Tile& tile, const ws::half* rows) {
  for (int i = threadIdx.x; i < 64 * 8; i += 128) {
    const uint4 chunk = reinterpret_cast<const uint4*>(rows)[i];
    reinterpret_cast<uint4*>(tile.elements)[swizzled_chunk<Swizzle::k128>(i / 8, i % 8) / 16] =
        chunk;
  }
}

__global__ void matmul_kernel(int n, const ws::half* a, const ws::half* b, float* c) {
  __shared__ Tile tile_a;
  __shared__ Tile tile_b;
  load_tile(tile_a, a + blockIdx.y * 64 * 64);
  load_tile(tile_b, b + blockIdx.x * 64 * 64);
  fence_proxy_async();
  __syncthreads();

  // Eight rows of 128 bytes are an atom; the next atom lies 1024 bytes further on.
  const uint64_t from_a = wgmma_descriptor(tile_a.elements, 0, 1024, Swizzle::k128);
  const uint64_t from_b = wgmma_descriptor(tile_b.elements, 0, 1024, Swizzle::k128);
  float d[32] = {};
  wgmma_fence(d);
  for (int step = 0; step < 4; ++step) {
    wgmma_m64k16<64, ws::half>(d, wgmma_advance(from_a, 32 * step),
                               wgmma_advance(from_b, 32 * step), true);
  }
  wgmma_commit_group();

  const int t = threadIdx.x;
  const int row = blockIdx.y * 64 + 16 * (t / 32) + t % 32 / 4;
  for (int j = 0; j < 8; ++j) {
    const int column = blockIdx.x * 64 + 8 * j + 2 * (t % 4);
    c[row * n + column] = d[4 * j];
    c[row * n + column + 1] = d[4 * j + 1];
    c[(row + 8) * n + column] = d[4 * j + 2];
    c[(row + 8) * n + column + 1] = d[4 * j + 3];
  }
}

void matmul(int m, int n, const ws::half* a, const ws::half* b, float* c) {
  matmul_kernel<<<dim3(n / 64, m / 64), 128>>>(n, a, b, c);
}
