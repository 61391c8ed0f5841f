// expect: race at 9: races with the
// A round of a reduction without a barrier behind it.
__global__ void sum(const float* in, float* out) {
  __shared__ float s[128];
  s[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  for (int k = 64; k > 0; k /= 2) {
    if (threadIdx.x < k)
      s[threadIdx.x] += s[threadIdx.x + k];
  }
  if (threadIdx.x == 0) *out = s[0];
}
int main() {
  float *in, *out;
  cudaMalloc(&in, 512);
  cudaMalloc(&out, 4);
  cudaMemset(in, 0x3f, 512);
  sum<<<1, 128>>>(in, out);
  cudaDeviceSynchronize();
}
