// Inverts a grey image of `rows` x `columns` pixels: 1 - value.

__global__ void invert_kernel(int rows, int columns, const float* image, float* inverted) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows || column >= columns) return;
  const int i = row * columns + column;
  inverted[i] = 1.0f - image[i];
}

void invert(int rows, int columns, const float* image, float* inverted) {
  const dim3 block(32, 8);
  const dim3 grid((columns + block.x - 1) / block.x, (rows + block.y - 1) / block.y);
  invert_kernel<<<grid, block>>>(rows, columns, image, inverted);
}
