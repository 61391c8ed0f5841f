// Transposes: naive, through a tile, and through a padded one; two-dimensional blocks.
#include <cstdio>
#include <cassert>
const int TILE_DIM = 32;
const int BLOCK_ROWS = 8;

__global__ void transposeNaive(float *odata, const float *idata) {
  int x = blockIdx.x * TILE_DIM + threadIdx.x;
  int y = blockIdx.y * TILE_DIM + threadIdx.y;
  int width = gridDim.x * TILE_DIM;
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
    odata[x * width + (y + j)] = idata[(y + j) * width + x];
}

__global__ void transposeNoBankConflicts(float *odata, const float *idata)
{
  __shared__ float tile[TILE_DIM][TILE_DIM+1];

  int x = blockIdx.x * TILE_DIM + threadIdx.x;
  int y = blockIdx.y * TILE_DIM + threadIdx.y;
  int width = gridDim.x * TILE_DIM;

  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
     tile[threadIdx.y+j][threadIdx.x] = idata[(y+j)*width + x];

  __syncthreads();

  x = blockIdx.y * TILE_DIM + threadIdx.x;  // transpose block offset
  y = blockIdx.x * TILE_DIM + threadIdx.y;

  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
     odata[(y+j)*width + x] = tile[threadIdx.x][threadIdx.y + j];
}

int main() {
  const int nx = 64, ny = 64, mem_size = nx * ny * sizeof(float);
  dim3 dimGrid(nx / TILE_DIM, ny / TILE_DIM, 1);
  dim3 dimBlock(TILE_DIM, BLOCK_ROWS, 1);
  float *h_idata = new float[nx * ny], *h_cdata = new float[nx * ny];
  for (int j = 0; j < ny; j++)
    for (int i = 0; i < nx; i++) h_idata[j * nx + i] = j * nx + i;
  float *d_idata, *d_tdata;
  assert(cudaMalloc(&d_idata, mem_size) == cudaSuccess);
  assert(cudaMalloc(&d_tdata, mem_size) == cudaSuccess);
  cudaMemcpy(d_idata, h_idata, mem_size, cudaMemcpyHostToDevice);
  for (int variant = 0; variant < 2; ++variant) {
    cudaMemset(d_tdata, 0, mem_size);
    if (variant == 0) transposeNaive<<<dimGrid, dimBlock>>>(d_tdata, d_idata);
    else transposeNoBankConflicts<<<dimGrid, dimBlock>>>(d_tdata, d_idata);
    cudaMemcpy(h_cdata, d_tdata, mem_size, cudaMemcpyDeviceToHost);
    for (int j = 0; j < ny; j++)
      for (int i = 0; i < nx; i++)
        if (h_cdata[i * nx + j] != h_idata[j * nx + i]) return 1;
  }
  delete[] h_idata;
  delete[] h_cdata;
  return 0;
}
