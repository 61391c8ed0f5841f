// expect: unwritten read at 4: a cudaMemcpy or cudaMemset is missing
__global__ void k(const float* in, float* out) { 
  out[threadIdx.x] =
     2 * in[threadIdx.x];
}
int main() { float *a, *b; cudaMalloc(&a, 256); cudaMalloc(&b, 256); k<<<1, 64>>>(a, b); cudaDeviceSynchronize(); }
