// expect: out of range at 5: reads 16 bytes at byte 256 of the 256 bytes of cudaMalloc
#include <cuda_pipeline.h>
__global__ void k(const float4* in) {
  __shared__ float4 s[32];
  __pipeline_memcpy_async(&s[threadIdx.x], &in[threadIdx.x], 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
}
int main() { float4* a; cudaMalloc(&a, 256); cudaMemset(a, 0, 256); k<<<1, 32>>>(a); cudaDeviceSynchronize(); }
