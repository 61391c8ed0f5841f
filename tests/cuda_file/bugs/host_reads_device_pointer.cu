// expect: host access at 6: host code reads byte 12 of the 256 bytes of cudaMalloc
#include <cstdio>
__global__ void k(float* out) { out[threadIdx.x] = 1; }
int main() { float* d; cudaMalloc(&d, 256); k<<<1, 64>>>(d); cudaDeviceSynchronize();
  printf("%f\n",
    d[3]);
}
