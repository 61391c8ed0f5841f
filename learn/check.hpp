// What the checks of the exercises share: arrays on the device, numbers to compute with, and a
// comparison that says what differs. Ordinary CUDA: it works with nvcc too.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace check {

// Ends the check where CUDA itself says no: a launch that it does not take, say.
inline void cuda(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::printf("CUDA says: %s\n", cudaGetErrorString(status));
  std::exit(1);
}

// `count` numbers between -1 and 1, the same ones in every run.
inline std::vector<float> numbers(size_t count, uint32_t seed) {
  std::vector<float> values(count);
  uint32_t state = seed * 2654435761u + 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
  }
  return values;
}

// The same as another type, such as ws::half; and back as double.
template <class T>
std::vector<T> as(const std::vector<float>& values) {
  std::vector<T> result;
  for (const float value : values) result.push_back(static_cast<T>(value));
  return result;
}
template <class T>
std::vector<double> exactly(const std::vector<T>& values) {
  std::vector<double> result;
  for (const T& value : values) result.push_back(static_cast<double>(static_cast<float>(value)));
  return result;
}

// An array on the device. Made from a size it is filled with ones in every bit, a NaN as a float,
// so that what a kernel forgets to write is seen. It is never freed: a check ends soon, and arrays
// at addresses of their own are what the profile counts as different memory.
template <class T>
class Array {
 public:
  explicit Array(size_t count) : count_(count) {
    cuda(cudaMalloc(&data_, count * sizeof(T)));
    cuda(cudaMemset(data_, 0xFF, count * sizeof(T)));
  }
  explicit Array(const std::vector<T>& values) : Array(values.size()) {
    cuda(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  T* pointer() const { return data_; }
  // Waits for the kernels before it.
  std::vector<T> read() const {
    cuda(cudaGetLastError());
    cuda(cudaDeviceSynchronize());
    std::vector<T> values(count_);
    cuda(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t count_;
};

// Ends the check, saying where and by how much, unless each of `got` is within `tolerance` of what
// is expected. What has `columns` is a matrix.
template <class T>
void equal(const std::string& what, const std::vector<T>& got, const std::vector<double>& expected,
           double tolerance = 0, size_t columns = 0) {
  size_t wrong = 0;
  size_t first = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = static_cast<double>(static_cast<float>(got[i])) - expected[i];
    if (std::abs(difference) <= tolerance) continue;  // NaN is not
    if (wrong++ == 0) first = i;
  }
  if (wrong == 0) return;
  const std::string index =
      columns == 0 ? std::to_string(first)
                   : std::to_string(first / columns) + "][" + std::to_string(first % columns);
  std::printf("%s[%s] is %g, not %g (%zu of %zu are wrong)\n", what.c_str(), index.c_str(),
              static_cast<double>(static_cast<float>(got[first])), expected[first], wrong,
              expected.size());
  std::exit(1);
}

}  // namespace check
