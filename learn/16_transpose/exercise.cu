// y[column][row] = x[row][column].

__global__ void transpose_kernel(int rows, int columns, const float* x, float* y) {
  const int column = blockIdx.x * 32 + threadIdx.x;
  for (int k = threadIdx.y; k < 32; k += 8) {
    const int row = blockIdx.y * 32 + k;
    if (row < rows && column < columns) y[column * rows + row] = x[row * columns + column];
  }
}

void transpose(int rows, int columns, const float* x, float* y) {
  const dim3 grid((columns + 31) / 32, (rows + 31) / 32);
  transpose_kernel<<<grid, dim3(32, 8)>>>(rows, columns, x, y);
}
