#include "check.hpp"
#include "exercise.cu"

int main() {
  const float a = 3;
  for (const int n : {2048, 8192}) {
    const std::vector<float> x = check::numbers(n, 1);
    std::vector<double> expected(n);
    for (int i = 0; i < n; ++i) expected[i] = double(a) * x[i];
    const check::Array<float> on_device(x), result(n);
    scale(n, a, on_device.pointer(), result.pointer());
    check::equal(std::to_string(n) + " elements: y", result.read(), expected, 1e-6);
  }
}
