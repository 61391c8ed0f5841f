// C = A B. A is m x k, B is k x n; m and n are multiples of 64, k of 16.

__global__ void matmul_kernel(int n, int k, const float* a, const float* b, float* c) {
  __shared__ float tile_a[16][16];
  __shared__ float tile_b[16][16];
  const int x = threadIdx.x;
  const int y = threadIdx.y;
  const int column = blockIdx.x * 16 + x;
  const int row = blockIdx.y * 16 + y;
  float sum = 0;
  for (int slice = 0; slice < k; slice += 16) {
    tile_a[y][x] = a[row * k + slice + x];
    tile_b[y][x] = b[(slice + y) * n + column];
    __syncthreads();
    for (int step = 0; step < 16; ++step) sum += tile_a[y][step] * tile_b[step][x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

void matmul(int m, int n, int k, const float* a, const float* b, float* c) {
  matmul_kernel<<<dim3(n / 16, m / 16), dim3(16, 16)>>>(n, k, a, b, c);
}
