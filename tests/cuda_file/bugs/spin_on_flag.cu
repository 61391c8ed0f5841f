// expect: deadlock at 3: 64 threads wait for ever
__global__ void k(volatile int* flag) {
  while (*flag == 0) { }
}
int main() { int* a; cudaMalloc(&a, 256); cudaMemset(a, 0, 256); k<<<1, 64>>>(a); cudaDeviceSynchronize(); }
