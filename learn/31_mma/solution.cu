// C = A B in half precision: a warp a 16 x 8 tile of C. A is m x k, B is k x n, in rows; m and k
// are multiples of 16, n of 8.
#include "warpsmith/ptx/mma.hpp"

__device__ uint32_t pack(ws::half low, ws::half high) {
  return low.bits | (static_cast<uint32_t>(high.bits) << 16);
}

__global__ void matmul_kernel(int n, int k, const ws::half* a, const ws::half* b, float* c) {
  const int group = threadIdx.x / 4;
  const int pair = 2 * (threadIdx.x % 4);
  const int row = blockIdx.y * 16 + group;
  const int column = blockIdx.x * 8;
  const auto of_a = [&](int i, int j) { return pack(a[i * k + j], a[i * k + j + 1]); };
  const auto of_b = [&](int i, int j) { return pack(b[i * n + j], b[(i + 1) * n + j]); };

  float d[4] = {};
  for (int step = 0; step < k; step += 16) {
    const uint32_t fragment_a[4] = {
        of_a(row, step + pair),
        of_a(row + 8, step + pair),
        of_a(row, step + pair + 8),
        of_a(row + 8, step + pair + 8),
    };
    const uint32_t fragment_b[2] = {
        of_b(step + pair, column + group),
        of_b(step + pair + 8, column + group),
    };
    ws::ptx::mma_m16n8k16<ws::half>(d, fragment_a, fragment_b, d);
  }
  c[row * n + column + pair] = d[0];
  c[row * n + column + pair + 1] = d[1];
  c[(row + 8) * n + column + pair] = d[2];
  c[(row + 8) * n + column + pair + 1] = d[3];
}

void matmul(int m, int n, int k, const ws::half* a, const ws::half* b, float* c) {
  matmul_kernel<<<dim3(n / 8, m / 16), 32>>>(n, k, a, b, c);
}
