// output: PASS
// Beside ordinary CUDA, this project's instructions.
#include <cuda_fp16.h>

#include <cstdio>

#include "warpsmith/ptx/ldmatrix.hpp"
#include "warpsmith/ptx/mma.hpp"

__global__ void product(const __half* a, const __half* b, float* c) {
  __shared__ __align__(16) __half tile[16 * 16];
  for (int i = threadIdx.x; i < 256; i += 32) tile[i] = a[i];
  __syncwarp();
  const int lane = threadIdx.x, group = lane / 4, pair = lane % 4 * 2;
  uint32_t of_a[4], of_b[2];
  ws::ptx::ldmatrix_x4(of_a, &tile[lane % 16 * 16 + lane / 16 * 8]);
  for (int r = 0; r < 2; ++r) {
    const uint32_t low = __half_as_ushort(b[(pair + r * 8) * 8 + group]);
    const uint32_t high = __half_as_ushort(b[(pair + r * 8 + 1) * 8 + group]);
    of_b[r] = low | high << 16;
  }
  float sums[4] = {};
  ws::ptx::mma_m16n8k16<ws::half>(sums, of_a, of_b, sums);
  for (int i = 0; i < 4; ++i) c[(group + i / 2 * 8) * 8 + pair + i % 2] = sums[i];
}

int main() {
  __half a[256], b[128], *da, *db;
  float c[128], *dc;
  for (int i = 0; i < 256; ++i) a[i] = __float2half(i % 5 - 2.0f);
  for (int i = 0; i < 128; ++i) b[i] = __float2half(i % 3 - 1.0f);
  cudaMalloc(&da, sizeof a);
  cudaMalloc(&db, sizeof b);
  cudaMalloc(&dc, sizeof c);
  cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice);
  cudaMemcpy(db, b, sizeof b, cudaMemcpyHostToDevice);
  product<<<1, 32>>>(da, db, dc);
  cudaMemcpy(c, dc, sizeof c, cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += __half2float(a[i * 16 + k]) * __half2float(b[k * 8 + j]);
      wrong += c[i * 8 + j] != sum;
    }
  std::printf("%s\n", wrong ? "FAIL" : "PASS");
  return wrong;
}
