// expect: launch at 8: 512 threads; the kernel's __launch_bounds__ promise at most 256
#include <cuda_runtime.h>

__global__ void __launch_bounds__(256) fill(int* x) { x[threadIdx.x] = 1; }
int main() {
  int* x;
  cudaMalloc(&x, 512 * sizeof(int));
  fill<<<1, 512>>>(x);
  cudaDeviceSynchronize();
}
