// output: sorted
// A block sorts in shared memory by a bitonic network; keys and values, unsigned.
#include <algorithm>
#include <cstdio>
#include <vector>

typedef unsigned int uint;

__device__ inline void comparator(uint& keyA, uint& valA, uint& keyB, uint& valB, uint dir) {
  if ((keyA > keyB) == dir) {
    uint t = keyA;
    keyA = keyB;
    keyB = t;
    t = valA;
    valA = valB;
    valB = t;
  }
}

template <uint kLength>
__global__ void bitonicSortShared(uint* keys, uint* values, uint dir) {
  __shared__ uint s_key[kLength];
  __shared__ uint s_val[kLength];
  keys += blockIdx.x * kLength + threadIdx.x;
  values += blockIdx.x * kLength + threadIdx.x;
  s_key[threadIdx.x] = keys[0];
  s_val[threadIdx.x] = values[0];
  s_key[threadIdx.x + kLength / 2] = keys[kLength / 2];
  s_val[threadIdx.x + kLength / 2] = values[kLength / 2];
  for (uint size = 2; size < kLength; size <<= 1) {
    uint ddd = dir ^ ((threadIdx.x & (size / 2)) != 0);
    for (uint stride = size / 2; stride > 0; stride >>= 1) {
      __syncthreads();
      uint pos = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
      comparator(s_key[pos], s_val[pos], s_key[pos + stride], s_val[pos + stride], ddd);
    }
  }
  for (uint stride = kLength / 2; stride > 0; stride >>= 1) {
    __syncthreads();
    uint pos = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
    comparator(s_key[pos], s_val[pos], s_key[pos + stride], s_val[pos + stride], dir);
  }
  __syncthreads();
  keys[0] = s_key[threadIdx.x];
  values[0] = s_val[threadIdx.x];
  keys[kLength / 2] = s_key[threadIdx.x + kLength / 2];
  values[kLength / 2] = s_val[threadIdx.x + kLength / 2];
}

int main() {
  const uint length = 256, blocks = 3;
  std::vector<uint> keys(length * blocks), values(keys.size());
  uint state = 1;
  for (uint i = 0; i < keys.size(); ++i) {
    state = state * 1664525u + 1013904223u;
    keys[i] = state >> 8;
    values[i] = i;
  }
  const std::vector<uint> before = keys;
  uint *dk, *dv;
  cudaMalloc(&dk, keys.size() * sizeof(uint));
  cudaMalloc(&dv, keys.size() * sizeof(uint));
  cudaMemcpy(dk, keys.data(), keys.size() * sizeof(uint), cudaMemcpyHostToDevice);
  cudaMemcpy(dv, values.data(), keys.size() * sizeof(uint), cudaMemcpyHostToDevice);
  bitonicSortShared<length><<<blocks, length / 2>>>(dk, dv, 1);
  cudaMemcpy(keys.data(), dk, keys.size() * sizeof(uint), cudaMemcpyDeviceToHost);
  cudaMemcpy(values.data(), dv, keys.size() * sizeof(uint), cudaMemcpyDeviceToHost);
  bool good = true;
  for (uint b = 0; b < blocks; ++b)
    good = good && std::is_sorted(keys.begin() + b * length, keys.begin() + (b + 1) * length);
  for (uint i = 0; i < keys.size(); ++i) good = good && before[values[i]] == keys[i];
  std::puts(good ? "sorted" : "not sorted");
  return good ? 0 : 1;
}
