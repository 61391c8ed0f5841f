// bins[b] = how many elements of x are b. Elements are 0 to 63; the bins are 0 before.

__global__ void histogram_kernel(int n, const int* x, int* bins) {
  const int first = blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = first; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[x[i]], 1);
}

void histogram(int n, const int* x, int* bins) {
  histogram_kernel<<<(n + 1023) / 1024, 256>>>(n, x, bins);
}
