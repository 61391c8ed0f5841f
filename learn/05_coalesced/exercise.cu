// y = a x, 16 elements a thread. n is a multiple of 16 * 128.

__global__ void scale_kernel(int n, float a, const float* x, float* y) {
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  for (int k = 0; k < 16; ++k) {
    const int i = thread * 16 + k;
    y[i] = a * x[i];
  }
}

void scale(int n, float a, const float* x, float* y) {
  scale_kernel<<<n / (16 * 128), 128>>>(n, a, x, y);
}
