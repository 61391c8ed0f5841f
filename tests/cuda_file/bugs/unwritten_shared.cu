// expect: unwritten read at 6: shared byte 124, which nothing has written
__global__ void k(float* out) {
  __shared__ float s[32];
  if (threadIdx.x < 16) s[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x];
}
int main() { float* d; cudaMalloc(&d, 128); k<<<1, 32>>>(d); cudaDeviceSynchronize(); }
