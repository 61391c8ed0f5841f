// expect: race at 5: races with the
// A counter that all threads count up, without an atomic.
__global__ void count(int* counter, const int* data) {
  if (data[threadIdx.x + blockIdx.x * blockDim.x] > 2) {
    *counter += 1;
  }
}
int main() {
  int *c, *d;
  cudaMalloc(&c, 4);
  cudaMalloc(&d, 1024);
  cudaMemset(c, 0, 4);
  cudaMemset(d, 1, 1024);
  count<<<4, 64>>>(c, d);
  cudaDeviceSynchronize();
}
