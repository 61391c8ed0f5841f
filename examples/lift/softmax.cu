// Calls a kernel that was taken out of Warpsmith, and asks for nothing but its headers:
//   nvcc -std=c++20 --expt-relaxed-constexpr -arch=sm_80 -I include examples/lift/softmax.cu
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <vector>

#include "online.cuh"

using Kernel = ws::softmax::OnlineKernel<float>;

int main() {
  constexpr int64_t kRows = 1000;
  constexpr int64_t kColumns = 3;
  std::vector<float> numbers(kRows * kColumns);
  for (int64_t i = 0; i < kRows * kColumns; ++i) numbers[i] = static_cast<float>(i % kColumns);
  const size_t bytes = numbers.size() * sizeof(float);

  float* x = nullptr;
  float* y = nullptr;
  cudaMalloc(&x, bytes);
  cudaMalloc(&y, bytes);
  cudaMemcpy(x, numbers.data(), bytes, cudaMemcpyHostToDevice);

  const int64_t blocks = (kRows + Kernel::kThreads - 1) / Kernel::kThreads;
  ws::launch<Kernel>({.blocks = blocks, .threads = Kernel::kThreads}, nullptr,
                     {x, y, kRows, kColumns});

  cudaMemcpy(numbers.data(), y, bytes, cudaMemcpyDeviceToHost);
  const float* last = numbers.data() + (kRows - 1) * kColumns;
  std::printf("%.3f %.3f %.3f: %s\n", last[0], last[1], last[2],
              cudaGetErrorString(cudaGetLastError()));
  cudaFree(x);
  cudaFree(y);
}
