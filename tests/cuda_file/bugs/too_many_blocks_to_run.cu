// expect: time at 0: blocks of this launch have begun
// time: 1
__global__ void k(int* sum) { if (threadIdx.x == 2000) atomicAdd(sum, 1); }
int main() {
  int* sum; cudaMalloc(&sum, sizeof(int));
  k<<<1000000, 1024>>>(sum);
  cudaDeviceSynchronize();
}
