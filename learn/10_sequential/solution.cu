// sums[b] = the sum of elements 256 b to 256 b + 255 of x. n is a multiple of 256.

__global__ void sum_kernel(const float* x, float* sums) {
  __shared__ float partial[256];
  const int t = threadIdx.x;
  partial[t] = x[blockIdx.x * 256 + t];
  __syncthreads();

  for (int distance = 128; distance > 0; distance /= 2) {
    if (t < distance) partial[t] += partial[t + distance];
    __syncthreads();
  }

  if (t == 0) sums[blockIdx.x] = partial[0];
}

void block_sums(int n, const float* x, float* sums) { sum_kernel<<<n / 256, 256>>>(x, sums); }
