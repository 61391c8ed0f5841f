// output: PASS
// Rows gathered by 64-bit indices, gradients added by atomics; a struct as an argument.
#include <cstdint>
#include <cstdio>
#include <vector>

struct Shape {
  int64_t tokens;
  int64_t width;
};

template <typename Index>
__global__ void gather(const Index* ids, const float* table, float* out, Shape shape) {
  for (int64_t i = blockIdx.x; i < shape.tokens; i += gridDim.x)
    for (int64_t j = threadIdx.x; j < shape.width; j += blockDim.x)
      out[i * shape.width + j] = __ldg(&table[ids[i] * shape.width + j]);
}

template <typename Index>
__global__ void scatter_add(const Index* ids, const float* grad, float* table, Shape shape) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i >= shape.tokens * shape.width) return;
  atomicAdd(&table[ids[i / shape.width] * shape.width + i % shape.width], grad[i]);
}

int main() {
  const Shape shape{50, 24};
  const int64_t rows = 7;
  int64_t* ids;
  float *table, *out, *grad;
  cudaMallocManaged(&ids, shape.tokens * sizeof(int64_t));
  cudaMallocManaged(&table, rows * shape.width * sizeof(float));
  cudaMallocManaged(&grad, rows * shape.width * sizeof(float));
  cudaMallocManaged(&out, shape.tokens * shape.width * sizeof(float));
  for (int64_t i = 0; i < shape.tokens; ++i) ids[i] = i * i % rows;
  for (int64_t i = 0; i < rows * shape.width; ++i) table[i] = float(i), grad[i] = 0;
  gather<<<8, 32>>>(ids, table, out, shape);
  scatter_add<int64_t><<<(shape.tokens * shape.width + 127) / 128, 128>>>(ids, out, grad, shape);
  cudaDeviceSynchronize();
  std::vector<int> uses(rows);
  int wrong = 0;
  for (int64_t i = 0; i < shape.tokens; ++i) {
    ++uses[ids[i]];
    for (int64_t j = 0; j < shape.width; ++j)
      wrong += out[i * shape.width + j] != float(ids[i] * shape.width + j);
  }
  for (int64_t i = 0; i < rows * shape.width; ++i)
    wrong += grad[i] != float(uses[i / shape.width]) * table[i];
  std::printf("%s\n", wrong ? "FAIL" : "PASS");
  return wrong;
}
