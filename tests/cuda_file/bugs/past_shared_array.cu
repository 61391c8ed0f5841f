// expect: out of range at 8: at byte 128 of s, which has 128 bytes
__global__ void k(float* a) {
  __shared__ float s[32];
  __shared__ float t[32];
  s[threadIdx.x] = 1;
  t[threadIdx.x] = 2;
  __syncthreads();
  a[threadIdx.x] = s[threadIdx.x + 1] + t[0];
}
int main() { float* a; cudaMalloc(&a, 400); k<<<1, 32>>>(a); cudaDeviceSynchronize(); }
