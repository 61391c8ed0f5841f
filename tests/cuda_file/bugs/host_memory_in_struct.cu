// expect: illegal address at 4: the host's memory
struct Vector { float* data; int n; };
__global__ void scale(Vector v) {
  if (threadIdx.x < v.n) v.data[threadIdx.x] *= 2;
}
int main() {
  Vector v{new float[32](), 32};
  scale<<<1, 32>>>(v);
  cudaDeviceSynchronize();
}
