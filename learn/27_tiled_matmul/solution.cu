// C = A B. A is m x k, B is k x n, C is m x n, all in rows.

__global__ void matmul_kernel(int m, int n, int k, const float* a, const float* b, float* c) {
  __shared__ float tile_a[16][16];
  __shared__ float tile_b[16][16];
  const int x = threadIdx.x;
  const int y = threadIdx.y;
  const int column = blockIdx.x * 16 + x;
  const int row = blockIdx.y * 16 + y;
  float sum = 0;
  for (int slice = 0; slice < k; slice += 16) {
    tile_a[y][x] = row < m && slice + x < k ? a[row * k + slice + x] : 0.0f;
    tile_b[y][x] = slice + y < k && column < n ? b[(slice + y) * n + column] : 0.0f;
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += tile_a[y][i] * tile_b[i][x];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}

void matmul(int m, int n, int k, const float* a, const float* b, float* c) {
  const dim3 grid((n + 15) / 16, (m + 15) / 16);
  matmul_kernel<<<grid, dim3(16, 16)>>>(m, n, k, a, b, c);
}
