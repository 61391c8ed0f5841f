// expect: race at 5: st.global
// What a function returns goes to memory at once: that access is seen, too.
__device__ float4 operator*(float4 a, float b) { return make_float4(a.x * b, a.y * b, a.z * b, a.w * b); }
__global__ void k(float4* out, const float4* in) {
  out[threadIdx.x / 2] = in[threadIdx.x] * float(threadIdx.x);
}
int main() {
  float4 *a, *b; cudaMalloc(&a, 1024); cudaMalloc(&b, 1024); cudaMemset(b, 63, 1024);
  k<<<1, 32>>>(a, b); cudaDeviceSynchronize();
}
