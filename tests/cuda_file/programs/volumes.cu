// Volumes with a pitch: cudaMalloc3D, cudaMemcpy3D there and back and of a part, cudaMemset3D.
#include <cstdio>
#include <vector>
__global__ void add_z(cudaPitchedPtr v, cudaExtent e) {
  size_t slice = v.pitch * v.ysize;
  int x = threadIdx.x, y = blockIdx.x, z = blockIdx.y;
  if (x < e.width / sizeof(float)) {
    char *p = (char *)v.ptr;
    float *row = (float *)(p + z * slice + y * v.pitch);
    row[x] += z;
  }
}
int main() {
  const int w = 13, h = 5, d = 4;
  std::vector<float> host(w * h * d), back(w * h * d, -1.f);
  for (int i = 0; i < w * h * d; i++) host[i] = i;
  cudaPitchedPtr dev;
  cudaExtent extent = make_cudaExtent(w * sizeof(float), h, d);
  if (cudaMalloc3D(&dev, extent) != cudaSuccess || dev.pitch < w * sizeof(float)) return 1;
  if (cudaMemset3D(dev, 0, extent) != cudaSuccess) return 2;
  cudaMemcpy3DParms p = {0};
  p.srcPtr = make_cudaPitchedPtr(host.data(), w * sizeof(float), w, h);
  p.dstPtr = dev;
  p.extent = extent;
  p.kind = cudaMemcpyHostToDevice;
  if (cudaMemcpy3D(&p) != cudaSuccess) return 3;
  add_z<<<dim3(h, d), 32>>>(dev, extent);
  cudaMemcpy3DParms q = {};
  q.srcPtr = dev;
  q.dstPtr = make_cudaPitchedPtr(back.data(), w * sizeof(float), w, h);
  q.extent = extent;
  q.kind = cudaMemcpyDeviceToHost;
  if (cudaMemcpy3DAsync(&q, 0) != cudaSuccess) return 4;
  cudaStreamSynchronize(0);
  for (int i = 0; i < w * h * d; i++) if (back[i] != i + i / (w * h)) { printf("%d: %f\n", i, back[i]); return 5; }
  // Two slices of two rows of three, from (4, 1, 2) to the front.
  std::vector<float> part(3 * 2 * 2);
  cudaMemcpy3DParms r = {};
  r.srcPtr = dev;
  r.srcPos = make_cudaPos(4 * sizeof(float), 1, 2);
  r.dstPtr = make_cudaPitchedPtr(part.data(), 3 * sizeof(float), 3, 2);
  r.extent = make_cudaExtent(3 * sizeof(float), 2, 2);
  r.kind = cudaMemcpyDeviceToHost;
  if (cudaMemcpy3D(&r) != cudaSuccess) return 6;
  for (int z = 0; z < 2; z++) for (int y = 0; y < 2; y++) for (int x = 0; x < 3; x++)
    if (part[(z * 2 + y) * 3 + x] != ((z + 2) * h + y + 1) * w + x + 4 + z + 2) return 7;
  r.extent.width = 1000;
  if (cudaMemcpy3D(&r) != cudaErrorInvalidValue || cudaGetLastError() != cudaErrorInvalidValue) return 8;
  cudaFree(dev.ptr);
  puts("volumes: right");
}
