// y[column][row] = x[row][column].

__global__ void transpose_kernel(int rows, int columns, const float* x, float* y) {
  __shared__ float tile[32][32];
  const int x0 = blockIdx.x * 32;  // the tile's corner in x
  const int y0 = blockIdx.y * 32;
  const int t = threadIdx.x;
  for (int k = threadIdx.y; k < 32; k += 8) {
    if (y0 + k < rows && x0 + t < columns) tile[k][t ^ k] = x[(y0 + k) * columns + x0 + t];
  }
  __syncthreads();
  for (int k = threadIdx.y; k < 32; k += 8) {
    if (x0 + k < columns && y0 + t < rows) y[(x0 + k) * rows + y0 + t] = tile[t][k ^ t];
  }
}

void transpose(int rows, int columns, const float* x, float* y) {
  const dim3 grid((columns + 31) / 32, (rows + 31) / 32);
  transpose_kernel<<<grid, dim3(32, 8)>>>(rows, columns, x, y);
}
