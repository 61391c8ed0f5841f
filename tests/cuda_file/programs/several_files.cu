// Headers of its own, a second .cu among them.
#include <stdlib.h>
#include "parts/kernels.cuh"
#include "parts/fill.cu"
int main() {
  float *d, h[50];
  check(cudaMalloc(&d, sizeof h));
  launch_fill(d, 2.5f, 50);
  fill<float><<<1, 32>>>(d, 1.5f, 10);
  check(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 50; ++i) if (h[i] != (i < 10 ? 1.5f : 2.5f)) return 1;
  return 0;
}
