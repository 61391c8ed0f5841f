// expect: misaligned at 3: is not a multiple of 16 bytes
__global__ void k(const float* in, float* out) {
  float4 v = *reinterpret_cast<const float4*>(in + 4 * threadIdx.x + 1);
  out[threadIdx.x] = v.x + v.y + v.z + v.w;
}
int main() { float *d, *o; cudaMalloc(&d, 1024); cudaMalloc(&o, 128); cudaMemset(d, 0, 1024); k<<<1, 32>>>(d, o); cudaDeviceSynchronize(); }
