// expect: time at 0: of 1000000 blocks
// time: 1
__global__ void k(float* a) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < 100) a[i] = 1;
}
int main() { float* a; cudaMalloc(&a, 400); k<<<1000000, 1000>>>(a); cudaDeviceSynchronize(); }
