// expect: out of range at 4: of the 0 bytes of dynamic shared memory
__global__ void k(float* out) {
  extern __shared__ float s[];
  s[threadIdx.x] = out[threadIdx.x];
  out[threadIdx.x] = s[threadIdx.x];
}
int main() {
  float* d;
  cudaMalloc(&d, 128);
  cudaMemset(d, 0, 128);
  k<<<1, 32>>>(d);
  cudaDeviceSynchronize();
}
