// expect: out of range at 5: writes 4 bytes at byte 4000 of the 4000 bytes of cudaMalloc
#include <cstdio>
__global__ void k(float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = 1.0f;
}
int main() { float* d; cudaMalloc(&d, 1000 * sizeof(float)); k<<<4, 256>>>(d, 1000); cudaDeviceSynchronize(); }
