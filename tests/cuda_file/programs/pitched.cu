// output: PASS
// Rows at a pitch, copied in two dimensions, and a 3D grid over planes.
#include <assert.h>
#include <stdio.h>
#include <string.h>

__global__ void add_place(float* image, size_t pitch, int width, int height, int planes) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  int z = blockIdx.z * blockDim.z + threadIdx.z;
  if (x < width && y < height && z < planes) {
    float* row = (float*)((char*)image + (z * height + y) * pitch);
    row[x] += 100.0f * z + 10.0f * y + x;
  }
}

int main() {
  const int width = 37, height = 5, planes = 3;
  float h[planes][height][width];
  memset(h, 0, sizeof h);
  float* d;
  size_t pitch;
  cudaMallocPitch(&d, &pitch, width * sizeof(float), height * planes);
  assert(pitch >= width * sizeof(float));
  cudaMemcpy2D(d, pitch, h, width * sizeof(float), width * sizeof(float), height * planes,
               cudaMemcpyHostToDevice);
  add_place<<<dim3(3, 2, 2), dim3(16, 4, 2)>>>(d, pitch, width, height, planes);
  cudaMemcpy2D(h, width * sizeof(float), d, pitch, width * sizeof(float), height * planes,
               cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (int z = 0; z < planes; z++)
    for (int y = 0; y < height; y++)
      for (int x = 0; x < width; x++) wrong += h[z][y][x] != 100.0f * z + 10.0f * y + x;
  printf("%s\n", wrong == 0 ? "PASS" : "FAIL");
  return wrong;
}
