// expect: divergence at 4: 40 of 64 threads arrived
__global__ void k(float* out) {
  if (threadIdx.x < 40) {
    __syncthreads();
  }
  out[threadIdx.x] = 1;
}
int main() { float* d; cudaMalloc(&d, 256); k<<<1, 64>>>(d); cudaDeviceSynchronize(); }
