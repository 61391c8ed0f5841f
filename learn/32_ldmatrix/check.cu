#include "check.hpp"
#include "exercise.cu"

// Small integers, so that every product and sum is exact.
std::vector<ws::half> integers(size_t count, uint32_t seed) {
  std::vector<float> values = check::numbers(count, seed);
  for (float& value : values) value = std::floor(4 * value);
  return check::as<ws::half>(values);
}

int main() {
  const int shapes[][3] = {{16, 16, 64}, {32, 48, 64}};
  for (const auto& [m, n, k] : shapes) {
    const std::vector<ws::half> a = integers(m * k, 1);
    const std::vector<ws::half> b = integers(k * n, 2);
    const std::vector<double> a_exactly = check::exactly(a);
    const std::vector<double> b_exactly = check::exactly(b);
    std::vector<double> expected(m * n);
    for (int i = 0; i < m * n * k; ++i) {
      const int row = i / k / n;
      const int column = i / k % n;
      expected[i / k] += a_exactly[row * k + i % k] * b_exactly[column * k + i % k];
    }
    const check::Array<ws::half> a_on_device(a), b_on_device(b);
    const check::Array<float> result(expected.size());
    matmul(m, n, a_on_device.pointer(), b_on_device.pointer(), result.pointer());
    check::equal(std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) + ": c",
                 result.read(), expected, 0, n);
  }
}
