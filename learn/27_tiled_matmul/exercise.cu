// C = A B. A is m x k, B is k x n, C is m x n, all in rows.

__global__ void matmul_kernel(int m, int n, int k, const float* a, const float* b, float* c) {
  const int column = blockIdx.x * 16 + threadIdx.x;
  const int row = blockIdx.y * 16 + threadIdx.y;
  float sum = 0;
  if (row < m && column < n) {
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
  }
}

void matmul(int m, int n, int k, const float* a, const float* b, float* c) {
  const dim3 grid((n + 15) / 16, (m + 15) / 16);
  matmul_kernel<<<grid, dim3(16, 16)>>>(m, n, k, a, b, c);
}
