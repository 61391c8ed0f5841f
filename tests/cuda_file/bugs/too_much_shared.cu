// expect: launch at 5: 100000 bytes of dynamic shared memory
#include <cstdio>
__global__ void k(float* a) { extern __shared__ float s[]; s[threadIdx.x] = 1; a[threadIdx.x] = s[threadIdx.x]; }
int main() { float* a; cudaMalloc(&a, 400);
  k<<<1, 32, 100000>>>(a);
  printf("%d\n", cudaDeviceSynchronize()); }
