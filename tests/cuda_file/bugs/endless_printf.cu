// expect: output at 0: prints more than 1 MB
// printed: 1000000
__global__ void k() {
  for (;;) printf("thread %d is here\n", threadIdx.x);
}
int main() { k<<<1, 32>>>(); cudaDeviceSynchronize(); }
