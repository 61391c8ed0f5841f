// C = A B^T in half precision: a warp a 16 x 16 tile of C. A is m x 64, B is n x 64, both in rows;
// m and n are multiples of 16.
#include "warpsmith/ptx/ldmatrix.hpp"
#include "warpsmith/ptx/mma.hpp"

// Where 16-byte chunk `chunk` of row `row` lies in a tile of 64 halves a row.
__device__ int at(int row, int chunk) { return row * 64 + chunk * 8; }

__device__ void load_tile(ws::half* tile, const ws::half* rows) {
  for (int i = threadIdx.x; i < 16 * 8; i += 32) {
    const uint4 chunk = reinterpret_cast<const uint4*>(rows)[i];
    *reinterpret_cast<uint4*>(tile + at(i / 8, i % 8)) = chunk;
  }
}

__global__ void matmul_kernel(int n, const ws::half* a, const ws::half* b, float* c) {
  __shared__ __align__(16) ws::half tile_a[16 * 64];
  __shared__ __align__(16) ws::half tile_b[16 * 64];
  const int lane = threadIdx.x;
  load_tile(tile_a, a + blockIdx.y * 16 * 64);
  load_tile(tile_b, b + blockIdx.x * 16 * 64);
  __syncthreads();

  float d[2][4] = {};
  for (int step = 0; step < 4; ++step) {  // 16 of K: two chunks
    uint32_t fragment_a[4];
    uint32_t fragment_b[4];
    // Lanes 0-7 and 8-15 name the upper and lower rows, lanes 16-31 the same of the next chunk.
    ws::ptx::ldmatrix_x4(fragment_a, tile_a + at(lane % 16, 2 * step + lane / 16));
    ws::ptx::ldmatrix_x4(fragment_b, tile_b + at(lane % 16, 2 * step + lane / 16));
    for (int half = 0; half < 2; ++half) {
      const uint32_t columns[2] = {fragment_b[half], fragment_b[half + 2]};
      ws::ptx::mma_m16n8k16<ws::half>(d[half], fragment_a, columns, d[half]);
    }
  }
  for (int half = 0; half < 2; ++half) {
    const int row = blockIdx.y * 16 + lane / 4;
    const int column = blockIdx.x * 16 + half * 8 + 2 * (lane % 4);
    c[row * n + column] = d[half][0];
    c[row * n + column + 1] = d[half][1];
    c[(row + 8) * n + column] = d[half][2];
    c[(row + 8) * n + column + 1] = d[half][3];
  }
}

void matmul(int m, int n, const ws::half* a, const ws::half* b, float* c) {
  matmul_kernel<<<dim3(n / 16, m / 16), 32>>>(n, a, b, c);
}
