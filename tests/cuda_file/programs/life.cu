// output: the glider moved
// Conway's game on a torus, two buffers that change places.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

constexpr int W = 32, H = 16;

__global__ void step(const uint8_t* __restrict__ now, uint8_t* __restrict__ next, int w, int h) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  int alive = 0;
#pragma unroll
  for (int dy = -1; dy <= 1; ++dy)
#pragma unroll
    for (int dx = -1; dx <= 1; ++dx)
      if (dx || dy) alive += now[(y + dy + h) % h * w + (x + dx + w) % w];
  next[y * w + x] = alive == 3 || (alive == 2 && now[y * w + x]);
}

int main() {
  uint8_t board[H][W] = {};
  board[1][2] = board[2][3] = board[3][1] = board[3][2] = board[3][3] = 1;
  uint8_t *a = nullptr, *b = nullptr;
  cudaMalloc(&a, sizeof board);
  cudaMalloc(&b, sizeof board);
  cudaMemcpy(a, board, sizeof board, cudaMemcpyHostToDevice);
  const dim3 block(16, 8), grid((W + block.x - 1) / block.x, (H + block.y - 1) / block.y);
  for (int i = 0; i < 4; ++i) {
    step<<<grid, block>>>(a, b, W, H);
    std::swap(a, b);
  }
  uint8_t after[H][W];
  cudaMemcpy(after, a, sizeof after, cudaMemcpyDeviceToHost);
  bool good = true;
  for (int y = 0; y < H; ++y)
    for (int x = 0; x < W; ++x) good &= after[(y + 1) % H][(x + 1) % W] == board[y][x];
  std::printf(good ? "the glider moved\n" : "FAIL\n");
  cudaFree(a), cudaFree(b);
  return !good;
}
