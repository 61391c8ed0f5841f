// C = A B. A is m x k, B is k x n; all are multiples of 16.

__global__ void matmul_kernel(int n, int k, const float* a, const float* b, float* c) {
  __shared__ float tile_a[2][16][16];
  __shared__ float tile_b[2][16][16];
  const int x = threadIdx.x;
  const int y = threadIdx.y;
  const int column = blockIdx.x * 16 + x;
  const int row = blockIdx.y * 16 + y;
  const auto load = [&](int slice, int buffer) {
    tile_a[buffer][y][x] = a[row * k + slice * 16 + x];
    tile_b[buffer][y][x] = b[(slice * 16 + y) * n + column];
  };

  float sum = 0;
  load(0, 0);
  const int slices = k / 16;
  for (int slice = 0; slice < slices; ++slice) {
    __syncthreads();
    const int buffer = slice % 2;
    if (slice + 1 < slices) load(slice + 1, 1 - buffer);
    for (int i = 0; i < 16; ++i) sum += tile_a[buffer][y][i] * tile_b[buffer][i][x];
  }
  c[row * n + column] = sum;
}

void matmul(int m, int n, int k, const float* a, const float* b, float* c) {
  matmul_kernel<<<dim3(n / 16, m / 16), dim3(16, 16)>>>(n, k, a, b, c);
}
