// expect: not supported at 4: a kernel launches a kernel
__global__ void child(int* p) { *p = 1; }
__global__ void parent(int* p) {
  child<<<1, 1>>>(p);
}
int main() {
  int* p;
  cudaMalloc(&p, 4);
  parent<<<1, 1>>>(p);
  cudaDeviceSynchronize();
}
