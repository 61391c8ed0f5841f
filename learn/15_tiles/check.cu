#include "check.hpp"
#include "exercise.cu"

int main() {
  for (const int n : {256, 1000, 4096}) {
    const std::vector<float> x = check::numbers(n, 1);
    std::vector<double> expected(n);
    for (int i = 0; i < n; ++i) {
      for (int k = i - 3; k <= i + 3; ++k) expected[i] += k >= 0 && k < n ? x[k] / 7.0 : 0.0;
    }
    const check::Array<float> on_device(x), result(n);
    smooth(n, on_device.pointer(), result.pointer());
    check::equal(std::to_string(n) + " elements: y", result.read(), expected, 1e-5);
  }
}
