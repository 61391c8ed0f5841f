#include "check.hpp"
#include "exercise.cu"

int main() {
  const float a = 3;
  const int cases[][2] = {{4096, 0}, {1003, 0}, {3, 0}, {512, 1}};
  for (const auto& [n, offset] : cases) {
    const std::vector<float> x = check::numbers(n + offset, 1);
    std::vector<double> expected(n);
    for (int i = 0; i < n; ++i) expected[i] = double(a) * x[i + offset];
    const check::Array<float> on_device(x), result(n + offset);
    scale(n, a, on_device.pointer() + offset, result.pointer() + offset);
    std::vector<float> y = result.read();
    y.erase(y.begin(), y.begin() + offset);
    check::equal(std::to_string(n) + " elements from element " + std::to_string(offset) + ": y", y,
                 expected, 1e-6);
  }
}
