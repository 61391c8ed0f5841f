// expect: time at 0: not at its end after 1 s: in host code
// time: 1
__global__ void k(int* flag) { *flag = 0; }
int main() {
  int* flag; cudaMallocManaged(&flag, sizeof(int));
  k<<<1, 1>>>(flag); cudaDeviceSynchronize();
  while (*(volatile int*)flag == 0) {}
}
