// expect: launch at 4: a block of (2048, 1, 1)
__global__ void k(float* a) { a[0] = 1; }
int main() { float* a; cudaMalloc(&a, 400);
  k<<<1, 2048>>>(a);
  cudaDeviceSynchronize(); }
