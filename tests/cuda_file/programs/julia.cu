// output: PASS
// A class with __device__ members, a grid of single threads, as introductory books have it.
#include <stdio.h>
#include <stdlib.h>

#define DIM 48

struct Complex {
  float r, i;
  __host__ __device__ Complex(float a, float b) : r(a), i(b) {}
  __host__ __device__ float magnitude2() const { return r * r + i * i; }
  __host__ __device__ Complex operator*(const Complex& o) const {
    return Complex(r * o.r - i * o.i, i * o.r + r * o.i);
  }
  __host__ __device__ Complex operator+(const Complex& o) const {
    return Complex(r + o.r, i + o.i);
  }
};

__host__ __device__ int julia(int x, int y) {
  const float scale = 1.5;
  Complex a(scale * (DIM / 2 - x) / (DIM / 2), scale * (DIM / 2 - y) / (DIM / 2));
  Complex c(-0.8f, 0.156f);
  for (int i = 0; i < 40; i++) {
    a = a * a + c;
    if (a.magnitude2() > 1000) return 0;
  }
  return 1;
}

__global__ void paint(unsigned char* pixels) {
  int x = blockIdx.x, y = blockIdx.y;
  int offset = x + y * gridDim.x;
  pixels[offset * 4 + 0] = 255 * julia(x, y);
  pixels[offset * 4 + 1] = 0;
  pixels[offset * 4 + 2] = 0;
  pixels[offset * 4 + 3] = 255;
}

int main(void) {
  const size_t bytes = DIM * DIM * 4;
  unsigned char* d;
  unsigned char* h = (unsigned char*)malloc(bytes);
  cudaMalloc((void**)&d, bytes);
  dim3 grid(DIM, DIM);
  paint<<<grid, 1>>>(d);
  cudaMemcpy(h, d, bytes, cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (int y = 0; y < DIM; y++)
    for (int x = 0; x < DIM; x++) wrong += h[4 * (x + y * DIM)] != 255 * julia(x, y);
  printf(wrong ? "FAIL\n" : "PASS\n");
  cudaFree(d);
  free(h);
  return wrong != 0;
}
