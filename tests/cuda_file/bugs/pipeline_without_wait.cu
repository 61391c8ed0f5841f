// expect: unwritten read at 7: shared byte 0, whose copy has not landed: a wait is missing
#include <cuda_pipeline.h>
__global__ void k(const float* in, float* out) {
  __shared__ float s[32];
  __pipeline_memcpy_async(&s[threadIdx.x], &in[threadIdx.x], sizeof(float));
  __pipeline_commit();
  out[threadIdx.x] = s[threadIdx.x];
}
int main() { float* a; cudaMalloc(&a, 256); cudaMemset(a, 0, 256); k<<<1, 32>>>(a, a + 32); cudaDeviceSynchronize(); }
