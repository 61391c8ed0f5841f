// C = A B. A is m x k, B is k x n, C is m x n, all in rows.

__global__ void matmul_kernel(int m, int n, int k, const float* a, const float* b, float* c) {
  const int column = blockIdx.x * 32 + threadIdx.x;
  const int row = blockIdx.y * 8 + threadIdx.y;
  if (row >= m || column >= n) return;
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
  c[row * n + column] = sum;
}

void matmul(int m, int n, int k, const float* a, const float* b, float* c) {
  const dim3 grid((n + 31) / 32, (m + 7) / 8);
  matmul_kernel<<<grid, dim3(32, 8)>>>(m, n, k, a, b, c);
}
