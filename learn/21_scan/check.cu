#include "check.hpp"
#include "exercise.cu"

int main() {
  for (const int n : {1, 200, 256}) {
    const std::vector<float> x = check::numbers(n, 1);
    std::vector<double> expected(n);
    double sum = 0;
    for (int i = 0; i < n; ++i) expected[i] = sum += x[i];
    const check::Array<float> on_device(x), result(n);
    scan(n, on_device.pointer(), result.pointer());
    check::equal(std::to_string(n) + " elements: y", result.read(), expected, 1e-4);
  }
}
