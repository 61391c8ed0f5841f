#include "check.hpp"
#include "exercise.cu"

int main() {
  const int shapes[][3] = {{33, 40, 20}, {64, 64, 64}};
  for (const auto& [m, n, k] : shapes) {
    const std::vector<float> a = check::numbers(m * k, 1);
    const std::vector<float> b = check::numbers(k * n, 2);
    std::vector<double> expected(m * n);
    for (int row = 0; row < m; ++row) {
      for (int i = 0; i < k; ++i) {
        for (int column = 0; column < n; ++column) {
          expected[row * n + column] += double(a[row * k + i]) * b[i * n + column];
        }
      }
    }
    const check::Array<float> a_on_device(a), b_on_device(b), result(expected.size());
    matmul(m, n, k, a_on_device.pointer(), b_on_device.pointer(), result.pointer());
    check::equal(std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) + ": c",
                 result.read(), expected, 1e-3, n);
  }
}
