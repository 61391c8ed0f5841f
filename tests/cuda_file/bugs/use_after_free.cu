// expect: out of range at 3: freed at
__global__ void set(int* p) {
  p[threadIdx.x] = 1;
}
int main() {
  int* p;
  cudaMalloc(&p, 128);
  cudaFree(p);
  set<<<1, 32>>>(p);
  cudaDeviceSynchronize();
}
