// expect: divergence at 5: __shfl_down_sync: 16 of 32 threads arrived
__global__ void k(int* x) {
  int v = threadIdx.x;
  if (threadIdx.x < 16) {
    v += __shfl_down_sync(0xffffffff, v, 8);
  }
  x[threadIdx.x] = v;
}
int main() {
  int* x;
  cudaMalloc(&x, 128);
  k<<<1, 32>>>(x);
  cudaDeviceSynchronize();
}
