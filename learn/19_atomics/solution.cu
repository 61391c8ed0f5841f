// *count = how many elements of x are positive; it is 0 before.

__global__ void count_kernel(int n, const float* x, int* count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned positive = __ballot_sync(0xffffffff, i < n && x[i] > 0);
  if (threadIdx.x % 32 == 0 && positive != 0) atomicAdd(count, __popc(positive));
}

void count_positive(int n, const float* x, int* count) {
  count_kernel<<<(n + 255) / 256, 256>>>(n, x, count);
}
