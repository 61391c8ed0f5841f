// A stencil whose weights are in constant memory, a blur with no textures, Jacobi between two buffers.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>
#define RADIUS 3
#define BLOCK 64
__constant__ float weights[2 * RADIUS + 1];
__constant__ int2 image_size;
__device__ unsigned int changed;
__device__ float last_error[2];

__global__ void stencil_1d(const float *in, float *out, int n) {
  __shared__ float tile[BLOCK + 2 * RADIUS];
  int g = blockIdx.x * blockDim.x + threadIdx.x, l = threadIdx.x + RADIUS;
  auto at = [=](int i) { return i < 0 || i >= n ? 0.f : in[i]; };
  tile[l] = at(g);
  if (threadIdx.x < RADIUS) {
    tile[l - RADIUS] = at(g - RADIUS);
    tile[l + BLOCK] = at(g + BLOCK);
  }
  __syncthreads();
  if (g >= n) return;
  float r = 0;
  #pragma unroll
  for (int o = -RADIUS; o <= RADIUS; o++) r += weights[o + RADIUS] * tile[l + o];
  out[g] = r;
}

__global__ void blur(const uchar4 *in, uchar4 *out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= image_size.x || y >= image_size.y) return;
  int r = 0, g = 0, b = 0, count = 0;
  for (int dy = -1; dy <= 1; ++dy)
    for (int dx = -1; dx <= 1; ++dx) {
      int xx = x + dx, yy = y + dy;
      if (xx < 0 || yy < 0 || xx >= image_size.x || yy >= image_size.y) continue;
      const uchar4 p = in[yy * image_size.x + xx];
      r += p.x, g += p.y, b += p.z, ++count;
    }
  out[y * image_size.x + x] = make_uchar4(r / count, g / count, b / count, 255);
}

__global__ void jacobi(const float *u, float *next, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y * blockDim.y + threadIdx.y + 1;
  if (x < n - 1 && y < n - 1) {
    float v = 0.25f * (u[y * n + x - 1] + u[y * n + x + 1] + u[(y - 1) * n + x] + u[(y + 1) * n + x]);
    next[y * n + x] = v;
    float d = fabsf(v - u[y * n + x]);
    if (d > 1e-3f) atomicAdd(&changed, 1u);
    atomicMax((int *)&last_error[0], __float_as_int(d));
  }
}

int main(int argc, char **argv) {
  const int n = 200;
  float w[2 * RADIUS + 1], *din, *dout;
  for (int i = 0; i < 2 * RADIUS + 1; i++) w[i] = 1.f / (1 + abs(i - RADIUS));
  cudaMemcpyToSymbol(weights, w, sizeof(w));
  std::vector<float> h(n), r(n);
  for (int i = 0; i < n; i++) h[i] = (i * 7) % 13;
  cudaMalloc((void **)&din, n * sizeof(float));
  cudaMalloc((void **)&dout, n * sizeof(float));
  cudaMemcpy(din, &h[0], n * sizeof(float), cudaMemcpyHostToDevice);
  stencil_1d<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(din, dout, n);
  cudaMemcpy(&r[0], dout, n * sizeof(float), cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; i++) {
    float want = 0;
    for (int o = -RADIUS; o <= RADIUS; o++)
      if (i + o >= 0 && i + o < n) want += w[o + RADIUS] * h[i + o];
    if (fabs(want - r[i]) > 1e-4) { printf("stencil: %d\n", i); return 1; }
  }

  int2 size = {37, 19};
  cudaMemcpyToSymbol(image_size, &size, sizeof size);
  std::vector<uchar4> img(size.x * size.y), got(size.x * size.y);
  for (int i = 0; i < size.x * size.y; i++) img[i] = make_uchar4(i % 256, i / 3 % 256, 9, 255);
  uchar4 *a, *b;
  cudaMalloc(&a, img.size() * sizeof(uchar4));
  cudaMalloc(&b, img.size() * sizeof(uchar4));
  cudaMemcpy(a, img.data(), img.size() * sizeof(uchar4), cudaMemcpyHostToDevice);
  blur<<<dim3((size.x + 15) / 16, (size.y + 15) / 16), dim3(16, 16)>>>(a, b);
  cudaMemcpy(got.data(), b, img.size() * sizeof(uchar4), cudaMemcpyDeviceToHost);
  if (got[0].x != (0 + 1 + 37 + 38) / 4 || got[38].z != 9 || got[40].w != 255) { printf("blur: %d\n", got[0].x); return 2; }

  const int m = 34;
  size_t bytes = m * m * sizeof(float);
  std::vector<float> u(m * m, 0.f);
  for (int i = 0; i < m; i++) u[i] = 1.f;
  float *p, *q;
  cudaMalloc(&p, bytes); cudaMalloc(&q, bytes);
  cudaMemcpy(p, u.data(), bytes, cudaMemcpyHostToDevice);
  cudaMemcpy(q, p, bytes, cudaMemcpyDeviceToDevice);
  unsigned left = 1;
  int steps = 0;
  for (; left && steps < 60; steps++) {
    unsigned zero = 0;
    cudaMemcpyToSymbol(changed, &zero, sizeof(zero));
    void *e;
    cudaGetSymbolAddress(&e, last_error);
    cudaMemset(e, 0, sizeof(float));
    jacobi<<<dim3(1, 4), dim3(32, 8)>>>(p, q, m);
    std::swap(p, q);
    cudaMemcpyFromSymbol(&left, changed, sizeof(left));
  }
  float err = -1;
  cudaMemcpyFromSymbol(&err, last_error, sizeof(float));
  printf("after %d steps %u cells move, by %g at most\n", steps, left, err);
  if (cudaGetLastError() != cudaSuccess || !(err > 0 && err < 0.01f)) return 3;
  cudaFree(din); cudaFree(dout); cudaFree(a); cudaFree(b); cudaFree(p); cudaFree(q);
  printf("PASS\n");
  return 0;
}
