// C = A B. A is m x k, B is k x n; m and n are multiples of 64, k of 16.

__global__ void matmul_kernel(int n, int k, const float* a, const float* b, float* c) {
  __shared__ float tile_a[64][16];
  __shared__ float tile_b[16][64];
  const int x = threadIdx.x;
  const int y = threadIdx.y;
  const int column = blockIdx.x * 64;
  const int row = blockIdx.y * 64;
  float sum[4][4] = {};
  for (int slice = 0; slice < k; slice += 16) {
    for (int i = 0; i < 4; ++i) {
      tile_a[y + 16 * i][x] = a[(row + y + 16 * i) * k + slice + x];
      tile_b[y][x + 16 * i] = b[(slice + y) * n + column + x + 16 * i];
    }
    __syncthreads();
    for (int step = 0; step < 16; ++step) {
      float from_a[4];
      float from_b[4];
      for (int i = 0; i < 4; ++i) {
        from_a[i] = tile_a[y + 16 * i][step];
        from_b[i] = tile_b[step][x + 16 * i];
      }
      for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) sum[i][j] += from_a[i] * from_b[j];
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) c[(row + y + 16 * i) * n + column + x + 16 * j] = sum[i][j];
  }
}

void matmul(int m, int n, int k, const float* a, const float* b, float* c) {
  matmul_kernel<<<dim3(n / 64, m / 64), dim3(16, 16)>>>(n, k, a, b, c);
}
