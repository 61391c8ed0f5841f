// Managed memory with advice and prefetches, as CUDA 12 and as CUDA 13 spell them; other memory
// has none.
#include <cstdio>

__global__ void twice(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2;
}

int main() {
  const int n = 1000;
  const size_t bytes = n * sizeof(float);
  float *x, *device;
  cudaMallocManaged(&x, bytes);
  cudaMalloc(&device, bytes);
  for (int i = 0; i < n; ++i) x[i] = i;
  const cudaMemLocation gpu = {cudaMemLocationTypeDevice, 0}, host = {cudaMemLocationTypeHost, 0};
  if (cudaMemAdvise(x, bytes, cudaMemAdviseSetPreferredLocation, 0) != cudaSuccess) return 1;
  if (cudaMemAdvise(x, bytes, cudaMemAdviseSetAccessedBy, host) != cudaSuccess) return 2;
  if (cudaMemPrefetchAsync(x, bytes, 0) != cudaSuccess) return 3;
  if (cudaMemPrefetchAsync(x, bytes, gpu, 0) != cudaSuccess) return 4;
  twice<<<(n + 255) / 256, 256>>>(x, n);
  if (cudaMemPrefetchAsync(x, bytes, cudaCpuDeviceId, 0) != cudaSuccess) return 5;
  if (cudaMemPrefetchAsync(x + n / 2, bytes / 2, host, 0, 0) != cudaSuccess) return 6;
  cudaDeviceSynchronize();
  for (int i = 0; i < n; ++i) {
    if (x[i] != 2 * i) return 7;
  }
  if (cudaMemPrefetchAsync(device, bytes, 0) != cudaErrorInvalidValue) return 8;
  if (cudaMemPrefetchAsync(x, bytes + 1, gpu, 0) != cudaErrorInvalidValue) return 9;
  if (cudaMemPrefetchAsync(x, bytes, 7) != cudaErrorInvalidDevice) return 10;
  float stack;
  if (cudaMemAdvise(&stack, 4, cudaMemAdviseSetReadMostly, gpu) != cudaErrorInvalidValue) return 11;
  cudaGetLastError();
  cudaFree(x);
  cudaFree(device);
  return 0;
}
