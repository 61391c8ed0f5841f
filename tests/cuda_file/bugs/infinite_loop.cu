// expect: time at 0: infinite_loop.cu:
// time: 1
__global__ void k(volatile int* out) {
  int i = threadIdx.x;
  while (true) {
    i = i * 3 + 1;
    asm volatile("");
  }
  out[0] = i;
}
int main() { int* a; cudaMalloc(&a, 256); k<<<1, 64>>>(a); cudaDeviceSynchronize(); }
