#include "check.hpp"
#include "exercise.cu"

int main() {
  const float a = 2.5f;
  for (const int n : {256, 4096}) {
    const std::vector<float> x = check::numbers(n, 1);
    const std::vector<float> y = check::numbers(n, 2);
    std::vector<double> expected(n);
    for (int i = 0; i < n; ++i) expected[i] = double(a) * x[i] + y[i];
    const check::Array<float> on_device(x), result(y);
    axpy(n, a, on_device.pointer(), result.pointer());
    check::equal(std::to_string(n) + " elements: y", result.read(), expected, 1e-5);
  }
}
