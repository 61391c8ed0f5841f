// sums[b] = the sum of elements 256 b to 256 b + 255 of x.

__global__ void sum_kernel(int n, const float* x, float* sums) {
  __shared__ float partial[256];
  const int t = threadIdx.x;
  const int i = blockIdx.x * 256 + t;
  partial[t] = i < n ? x[i] : 0.0f;
  __syncthreads();

  for (int distance = 128; distance > 0; distance /= 2) {
    if (t < distance) partial[t] += partial[t + distance];
    __syncthreads();
  }

  if (t == 0) sums[blockIdx.x] = partial[0];
}

void block_sums(int n, const float* x, float* sums) {
  sum_kernel<<<(n + 255) / 256, 256>>>(n, x, sums);
}
