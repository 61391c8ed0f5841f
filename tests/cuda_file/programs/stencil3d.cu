// A three-dimensional grid and blocks; a ring of cells that stay.
#include <cstdio>
#include <utility>
#include <vector>
#define IDX(x, y, z) ((z) * ny * nx + (y) * nx + (x))
__global__ void heat(const double* in, double* out, int nx, int ny, int nz) {
  const int x = threadIdx.x + blockIdx.x * blockDim.x;
  const int y = threadIdx.y + blockIdx.y * blockDim.y;
  const int z = threadIdx.z + blockIdx.z * blockDim.z;
  if (x >= nx || y >= ny || z >= nz) return;
  if (x == 0 || y == 0 || z == 0 || x == nx - 1 || y == ny - 1 || z == nz - 1) {
    out[IDX(x, y, z)] = in[IDX(x, y, z)];
    return;
  }
  out[IDX(x, y, z)] = (in[IDX(x - 1, y, z)] + in[IDX(x + 1, y, z)] + in[IDX(x, y - 1, z)] +
                       in[IDX(x, y + 1, z)] + in[IDX(x, y, z - 1)] + in[IDX(x, y, z + 1)]) / 6.0;
}
int main() {
  const int nx = 10, ny = 9, nz = 8, n = nx * ny * nz;
  std::vector<double> h(n), ref, next;
  for (int i = 0; i < n; ++i) h[i] = i % 11;
  ref = next = h;
  double *a, *b;
  cudaMalloc(&a, n * sizeof(double));
  cudaMalloc(&b, n * sizeof(double));
  cudaMemcpy(a, h.data(), n * sizeof(double), cudaMemcpyHostToDevice);
  const dim3 block{4, 4, 4};
  const dim3 grid{(nx + 3) / 4, (ny + 3) / 4, (nz + 3) / 4};
  for (int step = 0; step < 3; ++step) {
    heat<<<grid, block>>>(a, b, nx, ny, nz);
    std::swap(a, b);
    for (int z = 1; z < nz - 1; ++z)
      for (int y = 1; y < ny - 1; ++y)
        for (int x = 1; x < nx - 1; ++x)
          next[IDX(x, y, z)] = (ref[IDX(x - 1, y, z)] + ref[IDX(x + 1, y, z)] + ref[IDX(x, y - 1, z)] + ref[IDX(x, y + 1, z)] + ref[IDX(x, y, z - 1)] + ref[IDX(x, y, z + 1)]) / 6.0;
    std::swap(ref, next);
  }
  cudaMemcpy(h.data(), a, n * sizeof(double), cudaMemcpyDeviceToHost);
  return h == ref ? 0 : 1;
}
