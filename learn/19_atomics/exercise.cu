// *count = how many elements of x are positive; it is 0 before.

__global__ void count_kernel(int n, const float* x, int* count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && x[i] > 0) *count += 1;
}

void count_positive(int n, const float* x, int* count) {
  count_kernel<<<(n + 255) / 256, 256>>>(n, x, count);
}
